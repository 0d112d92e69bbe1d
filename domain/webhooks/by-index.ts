/**
 * For transactions that look up some rows of large tables. A statement that is prepared keeps its plan until the table is
 * analyzed: one that was made while the table was small, or where there might be many rows to look up, walks through all of
 * it. With 300,000 rows waiting for one webhook each look at any other took 70 ms, with a million a second. Nor by bitmaps:
 * those visit the entries of rows that are gone again and again, where a scan of the index marks them (0.6 ms of each look
 * at a webhook that was busy, of which 40 are looked at at a time). Since there is one way, it is planned once: for two or
 * three rows it was planned anew each time, which took longer than the rest.
 */
export const byIndex = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const;
