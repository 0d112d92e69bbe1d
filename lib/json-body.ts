import { ServiceError } from './errors.ts';

// A byte order mark stays, and is refused as JSON refuses it.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws {ServiceError} `invalid_json` */
export const decodeUtf8 = (bytes: Buffer): string => {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  }
};

const deepest = 1000;
const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

/** The deepest nesting of a JSON text that was parsed before. */
const nestingOf = (json: string): number => {
  let [depth, max, inString] = [0, 0, false];
  for (let i = 0; i < json.length; i += 1) {
    const code = json.charCodeAt(i);
    if (inString && code === backslash) i += 1;
    else if (code === quote) inString = !inString;
    else if (!inString && (code === openBracket || code === openBrace)) max = Math.max(max, (depth += 1));
    else if (!inString && (code === closeBracket || code === closeBrace)) depth -= 1;
  }
  return max;
};

/** JSON.parse takes any depth, but what walks the value later (JSON.stringify, a schema) runs out of stack. */
const requireShallow = (text: string): void => {
  if (text.length < deepest * 2 || nestingOf(text) <= deepest) return;
  throw new ServiceError('invalid_json', `The body is nested deeper than ${deepest} levels.`);
};

/**
 * The value of a JSON text that came over the network.
 * @throws {ServiceError} `invalid_json`, also when it is nested deeper than 1,000 levels
 */
export const parseJsonBody = (text: string): unknown => {
  try {
    const value: unknown = JSON.parse(text);
    requireShallow(text);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ServiceError('invalid_json', 'The body is not JSON.', {
      details: [{ path: '', message: error.message }],
    });
  }
};
