/**
 * The body of a statement that may have changed something: refused, and the change with it, when it is larger than what can
 * be fetched (30 MB; `migrations/project/0005_data_api.sql`). What only reads needs none: there the connection is cut.
 * @param body an expression of type text
 */
export const fetchable = (body: string): string => `plinth_api.within(${body})`;
