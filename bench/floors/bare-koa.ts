import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { Pool } from 'pg';

/**
 * The floor of `GET /projects/{id}`: the same libraries and the same query, and nothing else: no request ids, no log,
 * no validation, no metrics, no error mapping.
 */
const query = {
  name: 'project-member',
  text: `select s.id as sign_in_id, u.id as user_id, u.email, u.full_name, u.avatar_url, u.created_at as user_created_at,
      m.role, p.id, p.ref, p.org_id, p.server_id, p.name, p.slug, p.plan, p.status, p.db_name, p.data_key, p.created_at,
      p.updated_at, p.deleted_at
    from sign_in_tokens t join sign_ins s on s.id = t.sign_in_id join users u on u.id = s.user_id
    left join projects p on p.id = $2 and p.deleted_at is null
    left join members m on m.org_id = p.org_id and m.user_id = u.id
    where t.hash = $1 and t.kind = 'access' and t.expires_at > now() and s.ended_at is null`,
};

const pool = new Pool({
  connectionString: process.env['DATABASE_URL'],
  max: Number(process.env['PLINTH_DATABASE_POOL']),
});

const answer = async (ctx: Context): Promise<void> => {
  const token = ctx.get('authorization').slice('Bearer '.length);
  const hash = createHash('sha256').update(token).digest();
  const { id: projectId } = ctx['params'] as { id: string };
  const { rows } = await pool.query<Record<string, unknown>>({ ...query, values: [hash, projectId] });
  const [row] = rows;
  if (row === undefined) return;
  const { id, ref, name, slug, org_id, plan, status, db_name, created_at } = row;
  const rest_url = `http://${ctx.host}/p/${String(ref)}`;
  ctx.body = { id, ref, name, slug, org_id, plan, status, db_name, rest_url, created_at };
};

const router = new Router();
router.get('/projects/:id', answer);
const server = new Koa().use(router.routes()).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
