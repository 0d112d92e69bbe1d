import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { ServiceError } from '#lib/errors.ts';
import { fakeGateway, useVectors } from './vector-scene.ts';

const { scene } = useVectors(test);

/** The error's code, whatever kind of error it is. */
const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'none';
  } catch (error) {
    return String(Reflect.get(error as object, 'code'));
  }
};

const rowsOf = (collection: string) =>
  scene().sql(`select id, content, metadata, embedding::text as embedding from ${collection} order by id`);

const modelOf = async (collection: string): Promise<string | null> =>
  asAdmin(scene().project.dbName, async (admin) => {
    const { rows } = await admin.query('select model from plinth.collections where relation = $1::regclass', [
      `public.${collection}`,
    ]);
    return rows[0].model;
  });

test.serial('documents are embedded and written, in the order given', async (t) => {
  await scene().collection('written');
  const gateway = fakeGateway();
  const answer = await scene().upsert(gateway, 'written', [
    { id: 'b', content: '1 0 0.5', metadata: { n: [1, { deep: null }] } },
    { id: 'a', content: '0 -1 1e-30: "quoted" \\ {braces},\n日本' },
  ]);
  t.deepEqual(answer, { upserted: 2, unchanged: 0, ids: ['b', 'a'] });
  t.deepEqual(await rowsOf('written'), [
    { id: 'a', content: '0 -1 1e-30: "quoted" \\ {braces},\n日本', metadata: {}, embedding: '[0,-1,1e-30]' },
    { id: 'b', content: '1 0 0.5', metadata: { n: [1, { deep: null }] }, embedding: '[1,0,0.5]' },
  ]);
  t.is(await modelOf('written'), 'openai/embed-1');
});

test.serial(
  'what is there in the same words is not embedded again; other metadata alone need no provider',
  async (t) => {
    await scene().collection('again');
    const documents = [
      { id: 'a', content: '1 0 0', metadata: { x: 1 } },
      { id: 'b', content: '0 1 0', metadata: { x: 1 } },
      { id: 'c', content: '0 0 1', metadata: { x: 1 } },
    ];
    await scene().upsert(fakeGateway(), 'again', documents);
    const gateway = fakeGateway();
    t.deepEqual(await scene().upsert(gateway, 'again', documents), { upserted: 0, unchanged: 3, ids: ['a', 'b', 'c'] });
    const changed = [
      { id: 'a', content: '1 0 0', metadata: { x: 2 } },
      { id: 'b', content: '1 1 0', metadata: { x: 1 } },
      { id: 'c', content: '0 0 1', metadata: { x: 1 } },
    ];
    t.deepEqual(await scene().upsert(gateway, 'again', changed), { upserted: 2, unchanged: 1, ids: ['a', 'b', 'c'] });
    t.deepEqual(gateway.requested, [['1 1 0']]);
    t.deepEqual(await rowsOf('again'), [
      { ...changed[0], embedding: '[1,0,0]' },
      { ...changed[1], embedding: '[1,1,0]' },
      { ...changed[2], embedding: '[0,0,1]' },
    ]);
  },
);

test.serial('content that was changed by SQL is embedded again', async (t) => {
  await scene().collection('edited');
  await scene().upsert(fakeGateway(), 'edited', [{ id: 'a', content: '1 0 0' }]);
  await scene().sql(`update edited set content = 'something else'`);
  const gateway = fakeGateway();
  t.is((await scene().upsert(gateway, 'edited', [{ id: 'a', content: '1 0 0' }])).upserted, 1);
  t.deepEqual(gateway.requested, [['1 0 0']]);
});

test.serial('a provider gets at most 96 texts at once, and every document finds its own vector', async (t) => {
  await scene().collection('batches');
  const gateway = fakeGateway();
  const documents = Array.from({ length: 250 }, (_, n) => ({ id: `d${n}`, content: `1 ${n} 0` }));
  t.is((await scene().upsert(gateway, 'batches', documents)).upserted, 250);
  t.deepEqual(
    gateway.requested.map((texts) => texts.length).toSorted((a, b) => a - b),
    [58, 96, 96],
  );
  const [row] = await scene().sql(
    `select count(*)::int as wrong from batches where embedding::text <> '[1,' || substr(id, 2) || ',0]'`,
  );
  t.deepEqual(row, { wrong: 0 });
});

test.serial('vectors of another length are dimension_mismatch, naming both, and nothing is written', async (t) => {
  await scene().collection('lengths');
  const documents = [
    { id: 'a', content: '1 0 0' },
    { id: 'b', content: '1 0 0 0' },
  ];
  await t.throwsAsync(scene().upsert(fakeGateway(), 'lengths', documents), {
    code: 'dimension_mismatch',
    message: /3 dimensions.*makes 4/,
  });
  t.deepEqual(await rowsOf('lengths'), []);
  t.is(await modelOf('lengths'), null, 'a model that did not fit was kept');
});

// Each makes a collection: all at once they would wait too long for connections.
for (const [what, content, dimensions] of [
  ['not a number', '1 nan 0', 3],
  ['infinite', '1 Infinity 0', 3],
  ['too large for a float', '1 1e39 0', 3],
  ['zero', '0 0 0', 3],
  ['zero as a float', '0 1e-60 0', 3],
  ['too long to be compared', '3e38 3e38 1', 3],
  ['too short to be compared', '1e-30 0 0', 3],
  ['too short for a half', `1e-7${' 0'.repeat(2000)}`, 2001],
  ['too large for a half', `70000${' 1'.repeat(2000)}`, 2001],
] as const) {
  test.serial(`a vector that is ${what} is provider_bad_output, and nothing is written`, async (t) => {
    const name = `bad_${what.replaceAll(' ', '_')}`;
    await scene().collection(name, dimensions);
    t.is(await codeOf(scene().upsert(fakeGateway(), name, [{ id: 'a', content }])), 'provider_bad_output');
    t.deepEqual(await rowsOf(name), []);
  });
}

test.serial('up to 4,000 dimensions are written as halves, above as they are', async (t) => {
  for (const dimensions of [2001, 4001]) {
    const name = `long_${dimensions}`;
    await scene().collection(name, dimensions);
    const content = `0.5${' 1'.repeat(dimensions - 1)}`;
    t.is((await scene().upsert(fakeGateway(), name, [{ id: 'a', content }])).upserted, 1);
    const [found] = await scene().search(fakeGateway(), name, content);
    t.is(found?.id, 'a');
    t.true(Math.abs((found?.similarity ?? 0) - 1) < 1e-6);
  }
});

test.serial(
  'a second model is a conflict before any provider is asked; the same by another name is none',
  async (t) => {
    await scene().collection('models');
    await scene().upsert(fakeGateway(), 'models', [{ id: 'a', content: '1 0 0' }], 'openai/embed-1');
    const gateway = fakeGateway();
    t.is(await codeOf(scene().upsert(gateway, 'models', [{ id: 'b', content: '1 0 0' }], 'embed-2')), 'conflict');
    t.deepEqual(gateway.requested, []);
    t.is((await scene().upsert(gateway, 'models', [{ id: 'b', content: '1 0 0' }], 'embed-1')).upserted, 1);
    t.is((await scene().upsert(gateway, 'models', [{ id: 'c', content: '1 0 0' }], null)).upserted, 1);
  },
);

test.serial('the first documents need a model', async (t) => {
  await scene().collection('no_model');
  t.is(
    await codeOf(scene().upsert(fakeGateway(), 'no_model', [{ id: 'a', content: '1 0 0' }], null)),
    'validation_failed',
  );
});

test.serial('of two first models at once one wins, and all documents are of it', async (t) => {
  await scene().collection('race');
  let waiting = 0;
  const { promise: bothRequested, resolve } = Promise.withResolvers<void>();
  // Both have seen that there is no model yet.
  const gateway = fakeGateway(() => {
    waiting += 1;
    if (waiting === 2) resolve();
    return bothRequested;
  });
  const ends = await Promise.all(
    ['embed-1', 'embed-2'].map((model) =>
      codeOf(scene().upsert(gateway, 'race', [{ id: model, content: '1 0 0' }], model)),
    ),
  );
  t.deepEqual(ends.toSorted(), ['conflict', 'none']);
  const winner = (await modelOf('race'))?.replace('openai/', '');
  t.deepEqual(
    (await rowsOf('race')).map((row) => (row as { id: string }).id),
    [winner],
  );
});

test.serial('a failure leaves whole batches only, and done again the rest is written', async (t) => {
  await scene().collection('broken');
  const documents = Array.from({ length: 200 }, (_, n) => ({ id: `d${n}`, content: `1 ${n} 0` }));
  const failing = fakeGateway(async (texts) => {
    if (texts.includes('1 199 0')) throw new Error('the provider broke');
  });
  await t.throwsAsync(scene().upsert(failing, 'broken', documents), { message: 'the provider broke' });
  t.is((await rowsOf('broken')).length, 192);
  const gateway = fakeGateway();
  t.like(await scene().upsert(gateway, 'broken', documents), { upserted: 8, unchanged: 192 });
  t.deepEqual(
    gateway.requested.map((texts) => texts.length),
    [8],
  );
});

test.serial('the same documents written by many at once end as one of them wrote', async (t) => {
  await scene().collection('crowd');
  const ids = Array.from({ length: 50 }, (_, n) => `d${n}`);
  const write = (by: number) => {
    const documents = ids.map((id) => ({ id, content: `1 ${by} 0`, metadata: { by } }));
    return scene().upsert(fakeGateway(), 'crowd', by % 2 === 0 ? documents : documents.toReversed());
  };
  await Promise.all([1, 2, 3, 4].map(write));
  const [row] = await scene().sql(
    `select count(*)::int as rows, count(*) filter (where embedding::text <> '[1,' || (metadata ->> 'by') || ',0]')::int as torn from crowd`,
  );
  t.deepEqual(row, { rows: 50, torn: 0 });
});

for (const [what, swap, code] of [
  ['gives its name to another table', 'create table %s (like %s_away including all)', 'conflict'],
  ['gives its name to another collection', null, 'conflict'],
  ['loses its name', 'select 1', 'not_found'],
] as const) {
  test.serial(`a collection that ${what} while the provider is asked is not written, nor is the other`, async (t) => {
    const name = what.replaceAll(' ', '_').replace('gives_its_name_to_', '');
    await scene().collection(name);
    const gateway = fakeGateway(async () => {
      await scene().sql(`alter table ${name} rename to ${name}_away`);
      if (swap === null) await scene().collection(name);
      else await scene().sql(swap.replaceAll('%s', name));
    });
    t.is(await codeOf(scene().upsert(gateway, name, [{ id: 'a', content: '1 0 0' }])), code);
    t.deepEqual(await rowsOf(`${name}_away`), []);
    t.is(await modelOf(`${name}_away`), null);
    if (code === 'conflict') t.deepEqual(await rowsOf(name), []);
  });
}

test.serial(
  'a job that a provider answered nonsense, or that the database refused, ends; a provider that is away does not end it',
  async (t) => {
    await scene().collection('ends');
    const outcome = await scene().run(fakeGateway(), 'ends', [{ id: 'a', content: '0 0 0' }]);
    t.like(outcome, { status: 'failed', error: { code: 'provider_bad_output' } });
    const short = await scene().run(fakeGateway(), 'ends', [{ id: 'a', content: '1 0' }]);
    t.like(short, { status: 'failed', error: { code: 'dimension_mismatch' } });
    t.regex(short.error?.message ?? '', /makes 2\. Use a model of that many dimensions/);
    for (const code of ['provider_unavailable', 'provider_timeout', 'dependency_unavailable'] as const) {
      const away = fakeGateway(() => Promise.reject(new ServiceError(code, 'away')));
      await t.throwsAsync(scene().run(away, 'ends', [{ id: 'a', content: '1 0 0' }]), { code });
    }
  },
);

test.serial('a rule of the project’s own refuses with its SQLSTATE, and the job fails at once', async (t) => {
  await scene().collection('ruled');
  await scene().sql(`alter table ruled add check (content <> '1 0 0')`);
  const outcome = await scene().run(fakeGateway(), 'ruled', [{ id: 'a', content: '1 0 0' }]);
  t.like(outcome, { status: 'failed', result: null, error: { code: '23514' } });
});

test.serial('a trigger of the project’s that changes the session does no harm to what comes after', async (t) => {
  await scene().collection('spiteful');
  await scene().sql(`create function spite() returns trigger language plpgsql as $$ begin
    set search_path = nowhere; set statement_timeout = 1; set default_transaction_read_only = on; return null; end $$`);
  await scene().sql('create trigger spite after insert on spiteful execute function spite()');
  for (const id of ['a', 'b', 'c', 'd', 'e'])
    t.is((await scene().upsert(fakeGateway(), 'spiteful', [{ id, content: '1 0 0' }])).upserted, 1);
  t.is((await scene().search(fakeGateway(), 'spiteful', '1 0 0')).length, 5);
});

test.serial('an unknown collection is not_found with the nearest name', async (t) => {
  await scene().collection('nearby');
  await t.throwsAsync(scene().upsert(fakeGateway(), 'nearbi', [{ id: 'a', content: '1 0 0' }]), {
    code: 'not_found',
  });
});

test.serial('a job succeeds with what was done', async (t) => {
  await scene().collection('job');
  const outcome = await scene().run(fakeGateway(), 'job', [{ id: 'a', content: '1 0 0' }]);
  t.deepEqual(outcome, {
    status: 'succeeded',
    result: '{"upserted":1,"unchanged":0,"ids":["a"]}',
    error: null,
  });
});
