/** The characters that a Bearer token may consist of (RFC 6750, 2.1). */
const token = String.raw`[\w.~+/=-]+`;

const whole = new RegExp(`^${token}$`);
const credentials = new RegExp(`^Bearer +(${token}) *$`, 'i');

export const isBearerToken = (text: string): boolean => whole.test(text);

/** The token of an `Authorization` header; undefined when it holds none. */
export const bearerTokenOf = (authorization: string): string | undefined => credentials.exec(authorization)?.[1];
