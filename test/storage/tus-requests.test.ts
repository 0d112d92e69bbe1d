import { once } from 'node:events';
import { request } from 'node:http';
import test from 'ava';
import { byKey, ofPatch, resumableCalls, tus } from './resumable-calls.ts';
import { useStorage } from './storage-scene.ts';

const { newProject, platform } = useStorage(test);
const { begin, create, head, patch, rootOf } = resumableCalls(platform);

test('what is posted to an upload is meant for it, and a body that waits for 100 is invited', async (t) => {
  const of = await newProject();
  const caller = byKey(of);
  const id = await begin(of, caller);
  t.is(
    (await patch(caller, id, { body: '01234', more: { 'x-http-method-override': 'PATCH' }, method: 'POST' })).status,
    204,
  );
  t.is((await patch(caller, id, { body: '56', more: { 'upload-offset': '5' }, method: 'POST' })).status, 204);
  const sending = request(`${rootOf(caller)}/${id}`, {
    method: 'PATCH',
    headers: { ...ofPatch, ...caller.headers, 'upload-offset': '7', 'content-length': '3', expect: '100-continue' },
  });
  sending.flushHeaders();
  await once(sending, 'continue');
  sending.end('789');
  const [answer] = await once(sending, 'response');
  t.is(answer.statusCode, 204);
  const [refused] = await once(
    request(`${rootOf(caller)}/${crypto.randomUUID()}`, {
      method: 'PATCH',
      headers: { ...ofPatch, ...caller.headers, 'upload-offset': '0', 'content-length': '3', expect: '100-continue' },
    })
      .on('continue', () => t.fail('nobody wants that body'))
      .end(),
    'response',
  );
  t.deepEqual([refused.statusCode, refused.headers.connection], [404, 'close']);
  const other = await begin(of, caller);
  const override = { method: 'POST', headers: { ...tus, ...caller.headers, 'x-http-method-override': 'DELETE' } };
  t.is((await fetch(`${rootOf(caller)}/${other}`, override)).status, 204);
  t.is(await head(caller, other), 404);
});

test('a creation with more bytes than it announces is refused, and makes nothing', async (t) => {
  const of = await newProject();
  t.is((await create(of, byKey(of), { size: 4, body: '01234' })).status, 413);
  t.deepEqual(await platform().db.query('select id from storage_uploads where project_id = $1', [of.id]), []);
  t.is((await create(of, byKey(of), { size: 4, body: '0123' })).status, 201);
});
