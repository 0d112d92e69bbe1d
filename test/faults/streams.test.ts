import path from 'node:path';
import test from 'ava';
import { type Client, createClient } from '#test/support/client.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type PlatformProcess, environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const root = path.join(import.meta.dirname, '../..');
const platform = usePlatform(test, { worker: false });
const faulty = useFaultyPlatform(test);

const parts = 400;

/** Some 400 KB in 4 s, numbered. */
const streaming = `exports.handler = () => {
  let n = 0;
  return new Response(new ReadableStream({
    async pull(controller) {
      if (n === ${parts}) return controller.close();
      await new Promise((resolve) => setTimeout(resolve, 10));
      controller.enqueue(new TextEncoder().encode(String(n++).padStart(1000)));
    },
  }));
}`;

/** An answer that has not ended when a fault begins, however late that is. */
const endlessParts = 100_000;
const endless = streaming.replace(`n === ${parts}`, `n === ${endlessParts}`);

const sceneOf = async (client: Client, code = streaming) => {
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, code, { timeout_ms: 300_000 });
  return { client, user, project, fn };
};
type Scene = Awaited<ReturnType<typeof sceneOf>>;

/** Reads an answer until it ends or breaks; `began` is called once some of it has come. */
const read = async (base: string, { project, fn }: Scene, began: () => unknown) => {
  const answer = await fetch(`${base}/api/functions/${fn.slug}`, { headers: { apikey: project.key } });
  const id = String(answer.headers.get('x-invocation-id'));
  let bytes = 0;
  try {
    for await (const chunk of answer.body ?? []) {
      if (bytes === 0) began();
      bytes += (chunk as Uint8Array).length;
    }
    return { id, bytes, isWhole: true };
  } catch {
    return { id, bytes, isWhole: false };
  }
};

const runOf = ({ client, user, project, fn }: Scene, id: string) =>
  until(async () => {
    const url = `/projects/${project.id}/functions/${fn.id}/invocations/${id}`;
    const { status, body } = await client.call('GET', url, { token: user.token });
    return status === 200 && !['queued', 'running'].includes(String(body.status)) && (body as { status: string });
  });

for (const [fault, begin] of Object.entries({
  refuses: () => faulty().redis.refuse(),
  hangs: () => faulty().redis.hang(),
})) {
  test.serial(`a streamed answer breaks when Redis ${fault} in its middle, and the invocation says so`, async (t) => {
    t.timeout(longTestMs);
    const scene = await sceneOf(faulty().client, endless);
    for (const delayMs of [0, Math.random() * 1500]) {
      const answer = await read(faulty().base, scene, () => {
        setTimeout(() => {
          void begin();
          // The fault lasts a while: that is not a way to wait.
          setTimeout(() => void faulty().redis.restore(), 3000);
        }, delayMs);
      });
      t.false(answer.isWhole, `${answer.bytes} bytes`);
      t.true(answer.bytes < endlessParts * 1000);
      t.is((await runOf(scene, answer.id)).status, 'cancelled');
      await until(async () => (await scene.client.call('GET', '/readyz')).status === 200);
    }
    const ending = await sceneOf(faulty().client);
    const whole = await until(async () => {
      const answer = await read(faulty().base, ending, () => undefined).catch(() => null);
      return answer?.isWhole === true && answer;
    });
    t.is(whole.bytes, parts * 1000);
  });
}

for (const [fault, begin] of Object.entries({
  refuses: () => faulty().postgres.refuse(),
  hangs: () => faulty().postgres.hang(),
})) {
  test.serial(
    `a streamed answer comes whole though Postgres ${fault} in its middle, and its end is recorded later`,
    async (t) => {
      t.timeout(longTestMs);
      const scene = await sceneOf(faulty().client);
      t.teardown(() => faulty().postgres.restore());
      const answer = await read(faulty().base, scene, () => void begin());
      t.deepEqual([answer.isWhole, answer.bytes], [true, parts * 1000]);
      await faulty().postgres.restore();
      t.is((await runOf(scene, answer.id)).status, 'success');
      await until(async () => (await scene.client.call('GET', '/readyz')).status === 200);
    },
  );
}

const processes: PlatformProcess[] = [];
const start = async (script: string): Promise<PlatformProcess & { readonly port: number }> => {
  const started = startProcess(path.join(root, script), environmentOf(platform().config));
  processes.push(started);
  const { port = 0 } = await started.ready;
  return { ...started, port };
};

test.after.always('the processes end', async () => {
  for (const { child } of processes) child.kill('SIGKILL');
  await Promise.all(processes.map(({ end }) => end));
});

test.serial('a streamed answer breaks when its worker is killed, and its run has crashed', async (t) => {
  t.timeout(longTestMs);
  const worker = await start('workers/server.ts');
  const scene = await sceneOf(platform().client, endless);
  const answer = await read(platform().base, scene, () => worker.child.kill('SIGKILL'));
  t.false(answer.isWhole, `${answer.bytes} bytes`);
  await start('workers/server.ts');
  t.is((await runOf(scene, answer.id)).status, 'crashed');
});

test.serial('a run ends when the API process is killed that its answer goes to', async (t) => {
  t.timeout(longTestMs);
  const api = await start('api/server.ts');
  const scene = await sceneOf(platform().client, endless);
  const base = `http://127.0.0.1:${api.port}`;
  t.truthy(createClient(base));
  const answer = await read(base, scene, () => api.child.kill('SIGKILL'));
  t.false(answer.isWhole);
  t.is((await runOf(scene, answer.id)).status, 'cancelled');
});

test.serial('a client that leaves at any moment ends the run and nothing else', async (t) => {
  t.timeout(longTestMs);
  const scene = await sceneOf(faulty().client);
  const leave = async (afterMs: number): Promise<string | null> => {
    const signal = AbortSignal.timeout(afterMs);
    const headers = { apikey: scene.project.key };
    try {
      const answer = await fetch(`${faulty().base}/api/functions/${scene.fn.slug}`, { headers, signal });
      const id = answer.headers.get('x-invocation-id');
      await answer.arrayBuffer().catch(() => undefined);
      return id;
    } catch {
      return null;
    }
  };
  const ids = await Promise.all(Array.from({ length: 5 }, () => leave(1 + Math.floor(Math.random() * 1500))));
  for (const id of ids) if (id !== null) t.is((await runOf(scene, id)).status, 'cancelled');
  t.true((await read(faulty().base, scene, () => undefined)).isWhole);
});
