import { z } from 'zod';
import { toServiceError } from '#lib/errors.ts';
import { compileFunction } from './compile.ts';

const questionSchema = z.object({ source: z.string(), entryPoint: z.string().optional() });

const answerTo = async (message: unknown): Promise<unknown> => {
  try {
    const { source, entryPoint } = questionSchema.parse(message);
    const { code } = await compileFunction(source, entryPoint);
    return { code };
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
