/**
 * Work that goes on after the answer: the caller does not wait for it.
 * @setup create table lamps (id bigint generated always as identity primary key, item text, noted boolean)
 * @payload {"item": "lamp"}
 * @answer {"id": 1}
 */
import type { Handler } from 'plinth/functions';

export const handler: Handler<{ item: string }> = async ({ item }, sdk) => {
  const { id } = await sdk.db.insert('lamps', { item });
  sdk.waitUntil(sdk.db.update('lamps', { noted: true }, 'id = $1', [id]));
  return { id };
};
