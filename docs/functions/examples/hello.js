/**
 * The smallest function: the payload comes in, what is returned goes out as JSON.
 *
 * @payload {"name":"Ada"}
 * @answer {"greeting":"Hello, Ada!"}
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async ({ name = 'world' }) => ({ greeting: `Hello, ${name}!` });
