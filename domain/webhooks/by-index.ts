/**
 * For transactions that look up some rows of large tables. A statement that is prepared keeps its plan until the table is
 * analyzed: one that was made while the table was small, or where there might be many rows to look up, walks through all of
 * it. With 300,000 rows waiting for one webhook each look at any other took 70 ms, with a million a second.
 */
export const byIndex = { enable_seqscan: 'off', enable_hashjoin: 'off', enable_mergejoin: 'off' } as const;
