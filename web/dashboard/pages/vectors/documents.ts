/** A document as the API takes it. */
export interface NewDocument {
  readonly id?: string;
  readonly content: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

const isDocument = (value: unknown): value is NewDocument =>
  typeof value === 'object' && value !== null && typeof (value as NewDocument).content === 'string';

/**
 * The documents of what somebody typed: a JSON list of `{id, content, metadata}`, or else each paragraph is one.
 * @throws {Error} in words for a person
 */
export const documentsIn = (text: string): readonly NewDocument[] => {
  const trimmed = text.trim();
  if (!trimmed.startsWith('[')) {
    const paragraphs = trimmed.split(/\n\s*\n/).map((part) => part.trim());
    return paragraphs.filter((part) => part !== '').map((content) => ({ content }));
  }
  let value: unknown;
  try {
    value = JSON.parse(trimmed);
  } catch (error) {
    throw new Error('This begins as a JSON list, but is not one.', { cause: error });
  }
  if (!Array.isArray(value) || !value.every(isDocument))
    throw new Error('Each entry of the list needs a text as "content".');
  return value;
};

/** Metadata that results must contain. @throws {Error} in words for a person */
export const filterIn = (text: string): Readonly<Record<string, unknown>> | null => {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error('The filter is not JSON.', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('The filter is an object, such as {"language": "en"}.');
  return value as Record<string, unknown>;
};
