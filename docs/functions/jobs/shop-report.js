/** One report. Its retry policy calls it again when it fails, so what it writes may be written twice. */
export const handler = async ({ shop }, sdk) => {
  if (sdk.attempt === 1 && shop === 1) throw new Error('the accounting system is away');
  await sdk.db.query('insert into reports (shop, attempt) values ($1, $2) on conflict (shop) do nothing', [
    shop,
    sdk.attempt,
  ]);
};
