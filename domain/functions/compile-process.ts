import { z } from 'zod';
import { toServiceError } from '#lib/errors.ts';
import { bundleFiles } from './bundle.ts';
import { compileFunction } from './compile.ts';

const entryPoint = z.string().optional();

const questionSchema = z.union([
  z.object({ source: z.string(), entryPoint }),
  /** `files` is JSON text. */
  z.object({ files: z.string(), entrypoint: z.string(), maxBytes: z.number(), entryPoint }),
]);

const compiledOf = async (question: z.output<typeof questionSchema>): Promise<string> => {
  const { entryPoint: handler } = question;
  if ('source' in question) return (await compileFunction(question.source, handler)).code;
  const { files, entrypoint, maxBytes } = question;
  const set = { files: JSON.parse(files) as Record<string, string>, entrypoint };
  return bundleFiles(set, { entryPoint: handler, maxBytes });
};

const answerTo = async (message: unknown): Promise<unknown> => {
  try {
    return { code: await compiledOf(questionSchema.parse(message)) };
  } catch (error) {
    const { code, message: text, details, hint } = toServiceError(error);
    // The compiler's own helper did not survive this code: neither does this process.
    if (code === 'internal') process.exit(1);
    return { error: { code, message: text, details, hint } };
  }
};

process.on('message', (message) => {
  void answerTo(message).then((answer) => process.send?.(answer));
});
process.on('disconnect', () => process.exit(0));
