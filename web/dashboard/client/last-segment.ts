/**
 * The name at the end of the address, as it was before it was encoded. The router decodes a part of it, so that what it
 * hands on says no more whether a `%2F` was a slash or is in the name.
 */
export const lastSegment = (): string => {
  const [segment = ''] = globalThis.location.pathname.split('/').filter(Boolean).slice(-1);
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
};
