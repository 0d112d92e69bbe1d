/**
 * An order, from its payment to its parcel: three steps, and a wait of up to two days between them.
 * Takes `{order, amount}`; answers `{charge, parcel}`, or `{cancelled}` when nobody packed the order in time.
 * @type {import('plinth/functions').Handler<{ order: number; amount: number }>}
 */
export const handler = async ({ order, amount }, { step, db }) => {
  const charge = await step.run('charge', async () => {
    // A step may be done again when it broke off before its result was recorded: the charge has a key of its own.
    const [row] = await db.query(
      'insert into charges (order_id, amount) values ($1, $2) on conflict (order_id) do update set amount = excluded.amount returning id',
      [order, amount],
    );
    return row?.id;
  });

  // Sleeps here, for hours perhaps, and holds no place.
  const packed = await step.waitForEvent('table.parcels.INSERT', {
    filter: `data.order_id = ${order}`,
    timeout: 2 * 24 * 3600 * 1000,
  });
  if (packed === null) {
    await step.run('refund', () => db.remove('charges', 'order_id = $1', [order]));
    return { cancelled: order };
  }

  const parcel = packed.data.id;
  await step.run('tell', () => db.insert('mails', { order_id: order, text: `Parcel ${parcel} is on its way.` }));
  return { charge, parcel };
};
