/** Runs at night by a schedule: a row for each shop in need of a report, a job for each of them. */
export const handler = async (_payload, sdk) => {
  const shops = await sdk.db.query('select id from shops order by id');
  await sdk.db.transaction(async (tx) => {
    await tx.query('insert into report_runs (shops) values ($1)', [shops.length]);
    // Neither the row nor the jobs exist unless both do.
    await tx.jobs.enqueueMany(
      'shop-report',
      shops.map(({ id }) => ({ payload: { shop: id }, concurrency_key: 'reports', concurrency: 2 })),
    );
  });
  return { shops: shops.length };
};
