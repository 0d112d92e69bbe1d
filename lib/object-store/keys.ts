/** In bytes; S3 takes 1,024. */
const maxKeyLength = 512;

const segment = '[a-z0-9-]{1,200}';
const keyForm = new RegExp(`^${segment}(?:/${segment})*$`);
const prefixForm = new RegExp(`^(?:${segment}/)*(?:${segment})?$`);

export const isKey = (key: string): boolean => key.length <= maxKeyLength && keyForm.test(key);

/**
 * No dots, so no `..`; no empty segment; nothing that a file system or an S3 server reads in another way.
 * @throws {RangeError} when a key was made of something else, which is a fault of the platform
 */
export const requireKey = (key: string): void => {
  if (!isKey(key)) throw new RangeError('not a key of the object store');
};

/** @throws {RangeError} as `requireKey` does; the empty prefix is that of every key. */
export const requirePrefix = (prefix: string): void => {
  if (prefix.length > maxKeyLength || !prefixForm.test(prefix)) throw new RangeError('not a prefix of keys');
};
