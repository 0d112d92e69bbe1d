import path from 'node:path';

/** The control database's migrations, each a file that knex runs once. */
export const controlMigrations = path.join(import.meta.dirname, '../migrations/control');
