import { z } from 'zod';
import { ServiceError } from '#lib/errors.ts';

/** In pixels, as supabase's own service has it. */
const maxSide = 2500;

const wholeFrom = (min: number, max: number) => {
  const error = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,5}$/, { error })
    .transform(Number)
    .refine((value) => value >= min && value <= max, { error });
};

const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, { error: `must be one of ${words.join(', ')}` });

const optionsSchema = z.object({
  width: wholeFrom(1, maxSide).optional(),
  height: wholeFrom(1, maxSide).optional(),
  resize: oneOf(['cover', 'contain', 'fill']).default('cover'),
  quality: wholeFrom(20, 100).default(80),
  format: oneOf(['origin', 'webp', 'avif', 'jpeg', 'png']).default('origin'),
});

/**
 * How a picture is transformed. Sides are the largest that the result may have: a picture is never enlarged. `cover`
 * fills both sides and crops, `contain` fits into them, `fill` stretches.
 */
export type PictureOptions = Readonly<z.output<typeof optionsSchema>>;

/** The names that a query or a signed URL may hold, in the order of the text of `pictureOptionsText`. */
const pictureOptionNames = ['width', 'height', 'resize', 'quality', 'format'] as const;

/**
 * Reads the options of a transformation, as they stand in a query or a `transform` object. Other names are ignored.
 * @throws {ServiceError} validation_failed, which names each wrong option
 */
export const parsePictureOptions = (given: Readonly<Record<string, unknown>>): PictureOptions => {
  const named = pictureOptionNames.flatMap((name) =>
    given[name] === undefined ? [] : [[name, typeof given[name] === 'number' ? String(given[name]) : given[name]]],
  );
  const { data, error } = optionsSchema.safeParse(Object.fromEntries(named));
  if (data !== undefined) return data;
  throw new ServiceError('validation_failed', 'The picture cannot be transformed so.', {
    details: error.issues.map(({ path, message }) => ({ path: path.join('.'), message })),
  });
};

/** One text for all ways to write the same options: what is cached and signed is named by it. */
export const pictureOptionsText = (options: PictureOptions): string =>
  pictureOptionNames.flatMap((name) => (options[name] === undefined ? [] : `${name}=${options[name]}`)).join(',');
