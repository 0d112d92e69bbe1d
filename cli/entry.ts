/*
 * The start of the program. Asking for the version loads nothing else: editors and scripts do it often, and the rest of
 * the program with the modules of Node that it needs takes longer than Node itself.
 */

/** Set when the bundle is made. */
declare const CLI_VERSION: string;

const given = process.argv.slice(2);

if (given.length === 1 && (given[0] === '--version' || given[0] === '-V')) process.stdout.write(`${CLI_VERSION}\n`);
else await import('./main.ts');
