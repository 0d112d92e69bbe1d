import type { Client } from 'pg';

/** Gives end users in a project's database the rights on these schemas that they have on public, and on no others. */
export const writeExposedSchemas = async (client: Client, schemas: readonly string[]): Promise<void> => {
  await client.query('select plinth.expose_schemas($1)', [[...schemas]]);
};
