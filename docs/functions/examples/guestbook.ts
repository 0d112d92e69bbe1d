/**
 * Reads and writes a table. Values are bound, names of tables and columns are quoted: nothing that a caller sends
 * becomes SQL.
 *
 * @setup create table entries (id int generated always as identity primary key, author text not null, words text not null)
 * @payload {"author":"Ada","words":"It's {\"quoted\"}; drop table entries"}
 * @answer {"signed":{"id":1,"author":"Ada","words":"It's {\"quoted\"}; drop table entries"},"entries":1}
 */
import type { Handler } from 'plinth/functions';

interface Entry {
  author: string;
  words: string;
}

export const handler: Handler<Entry> = async ({ author, words }, { db }) => {
  const signed = await db.insert('entries', { author, words });
  const all = await db.select('entries', 'author = $1', [author]);
  return { signed, entries: all.length };
};
