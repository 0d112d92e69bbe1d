import { parseDelimited } from '../../client/delimited.ts';
import type { Operations } from '../../client/types.ts';

export type ImportedUsers = Operations['POST /projects/{project_id}/users/import']['body']['users'];
type ImportedUser = ImportedUsers[number];

/** The users of a file, and how a person counts them. */
export interface UserFile {
  readonly users: ImportedUsers;
  /** The number by which the user at an index is found in the file. */
  readonly placeOf: (index: number) => string;
}

const readJson = (text: string): UserFile => {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error(`The file is not JSON: ${String(error)}`, { cause: error });
  }
  const users = Array.isArray(json) ? (json as unknown[]) : (json as { users?: unknown } | null)?.users;
  if (!Array.isArray(users)) throw new Error('The file is neither a list of users nor an object with a list users.');
  return { users: users as ImportedUsers, placeOf: (index) => `no. ${index + 1}` };
};

const texts = new Set(['id', 'password_hash', 'created_at', 'banned_until']);
const objects = new Set(['user_metadata', 'app_metadata']);

/** A cell that is no JSON goes as it is, so that the import names its user among those that failed. */
const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** Cells by the names of their columns; an unknown column is a field of the user's own metadata. */
const userOf = (columns: readonly string[], cells: readonly string[]): ImportedUser => {
  const user: Record<string, unknown> = { email: '' };
  const more: Record<string, string> = {};
  for (const [place, column] of columns.entries()) {
    const text = cells[place] ?? '';
    if (column === 'email') user['email'] = text;
    else if (text === '') continue;
    else if (column === 'email_verified') user[column] = /^(?:true|1|yes)$/i.test(text);
    else if (objects.has(column)) user[column] = jsonOf(text);
    else if (texts.has(column)) user[column] = text;
    else more[column] = text;
  }
  if (Object.keys(more).length > 0)
    user['user_metadata'] = { ...(user['user_metadata'] as object | undefined), ...more };
  return user as ImportedUser;
};

const separatorOf = (head: string): ',' | '\t' | ';' => {
  if (head.includes('\t')) return '\t';
  return head.includes(';') && !head.includes(',') ? ';' : ',';
};

const readDelimited = (text: string): UserFile => {
  const [head = '', ...lines] = text.split('\n', 2);
  const rows = parseDelimited(text, separatorOf(head)).map((row) => row.map((cell) => cell.text.trim()));
  const columns = rows[0] ?? [];
  if (lines.length === 0 || !columns.includes('email'))
    throw new Error('The first line of the file has to name its columns, and one of them has to be email.');
  const filled = [...rows.entries()].slice(1).filter(([, cells]) => cells.some((cell) => cell !== ''));
  return {
    users: filled.map(([, cells]) => userOf(columns, cells)),
    placeOf: (index) => `row ${(filled[index]?.[0] ?? index) + 1}`,
  };
};

/** Reads a file of users: JSON, or cells separated by commas, semicolons or tabs. @throws {Error} in words for a person */
export const readUserFile = (text: string): UserFile =>
  /^\s*[[{]/.test(text) || !/[,;\t\n]/.test(text) ? readJson(text) : readDelimited(text);

/** The address of a user of a file as a text: nobody has checked the file yet. */
export const addressOf = (user: unknown): string => {
  const email: unknown = typeof user === 'object' && user !== null ? Reflect.get(user, 'email') : undefined;
  return typeof email === 'string' ? email : '';
};

/** The addresses that stand in a file more than once; only the first of each is imported. */
export const repeatedIn = (users: ImportedUsers): number => {
  const addresses = users.map((user) => addressOf(user).toLowerCase());
  return addresses.length - new Set(addresses).size;
};
