/**
 * Moves money between two accounts, wholly or not at all: what throws within the transaction undoes it.
 *
 * @setup create table accounts (name text primary key, cents bigint not null check (cents >= 0)); insert into accounts values ('ada', 1000), ('bob', 0)
 * @payload {"from":"ada","to":"bob","cents":250}
 * @answer {"moved":250,"balances":[{"name":"ada","cents":750},{"name":"bob","cents":250}]}
 */
import type { Handler } from 'plinth/functions';

interface Transfer {
  from: string;
  to: string;
  cents: number;
}

export const handler: Handler<Transfer> = async ({ from, to, cents }, { db }) => {
  await db.transaction(async (tx) => {
    const paid = await tx.query('update accounts set cents = cents - $2 where name = $1 returning name', [from, cents]);
    const got = await tx.query('update accounts set cents = cents + $2 where name = $1 returning name', [to, cents]);
    if (paid.length === 0 || got.length === 0) throw new Error('There is no such account.');
  });
  return { moved: cents, balances: await db.query('select name, cents from accounts order by name') };
};
