import { existsSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { jobGaugeNames } from '#api/metrics.ts';
import { allSettings } from '#queues/settings.ts';
import { metricsText, registry } from '#lib/metrics.ts';
import { faults } from '#queues/metrics.ts';
import { root } from '#test/architecture/source.ts';
import { linksOf } from '#test/readme/markdown.ts';
import { givenSettings, objectsIn, operationsFiles, readOperations, yamlOf } from './operations-files.ts';

const nodeOwn = new Set(['NODE_COMPILE_CACHE', 'NODE_ENV']);
const shape: Readonly<Record<string, (typeof allSettings.shape)[keyof typeof allSettings.shape] | undefined>> =
  allSettings.shape;

const yamlFiles = readOperations('docs/operations/**/*.{yml,yaml}', 'test/operations/*.yml');

for (const file of yamlFiles) {
  test(`${file.name} is YAML`, (t) => {
    t.true(yamlOf(file).length > 0);
  });
}

test('every metric that the operations documents name exists', async (t) => {
  await metricsText();
  const own = registry.getMetricsAsArray().map(({ name }) => name);
  const known = new Set([
    ...jobGaugeNames,
    ...own.flatMap((name) => [name, ...['bucket', 'sum', 'count'].map((part) => `${name}_${part}`)]),
  ]);
  const named = operationsFiles().flatMap(({ name: file, text }) =>
    [...text.matchAll(/\bplinth_(?:jobs|http|process|nodejs)_\w+/g)].map(([name]) => ({ file, name })),
  );
  t.true(named.length > 80);
  t.deepEqual(
    named.filter(({ name }) => !known.has(name)),
    [],
  );
});

test('every metric of the job engine is explained in docs/operations.md', (t) => {
  const [document] = readOperations('docs/operations.md');
  const jobMetrics = registry.getMetricsAsArray().map(({ name }) => name);
  for (const name of [...jobGaugeNames, ...jobMetrics.filter((metric) => metric.startsWith('plinth_jobs_'))]) {
    t.true(document?.text.includes(`\`${name}\``), name);
  }
});

test('the alert about repairs says what each fault means', (t) => {
  const [alerts] = readOperations('docs/operations/alerts.yml');
  for (const fault of faults) t.true(alerts?.text.includes(fault), fault);
});

test('every setting that the operations documents name exists', (t) => {
  const named = operationsFiles().flatMap(({ name: file, text }) =>
    [...text.matchAll(/\b(?:PLINTH|OTEL)_[A-Z\d_]*[A-Z\d]/g)].map(([name]) => ({ file, name })),
  );
  t.true(named.length > 50);
  t.deepEqual(
    named.filter(({ name }) => !(name in shape)),
    [],
  );
});

test('what the files for deployment give our processes are settings, with values that they take', (t) => {
  const given = givenSettings().filter(({ name }) => !nodeOwn.has(name));
  t.true(given.length > 30);
  const wrong = given.filter(({ name, value }) => {
    const setting = shape[name];
    if (setting === undefined) return true;
    // Values that are set at deployment have none yet.
    return value !== null && !value.includes('${') && !setting.safeParse(value).success;
  });
  t.deepEqual(wrong, []);
});

const msIn = (value: unknown): number => Number.parseFloat(String(value)) * 1000;

const drainOf = (env: unknown): number => {
  const list = env as { name: string; value?: string }[];
  return Number(list.find(({ name }) => name === 'DRAIN_MS')?.value);
};

test('whoever stops a process waits longer than it drains', (t) => {
  const pods = readOperations('docs/operations/kubernetes/*.yaml')
    .flatMap(yamlOf)
    .flatMap(objectsIn)
    .filter((object) => 'terminationGracePeriodSeconds' in object)
    .map((pod) => {
      const [container] = pod['containers'] as {
        env: unknown;
        lifecycle?: { preStop: { sleep: { seconds: number } } };
      }[];
      const pauseMs = msIn(container?.lifecycle?.preStop.sleep.seconds ?? 0);
      return { patience: msIn(pod['terminationGracePeriodSeconds']) - pauseMs, drain: drainOf(container?.env) };
    });
  const services = readOperations('docs/operations/compose.yaml')
    .flatMap(yamlOf)
    .flatMap(objectsIn)
    .filter((object) => 'stop_grace_period' in object && 'environment' in object)
    .map((service) => ({
      patience: msIn(service['stop_grace_period']),
      drain: Number((service['environment'] as Record<string, string>)['DRAIN_MS']),
    }));
  const units = readOperations('docs/operations/systemd/*').map(({ text }) => ({
    patience: msIn(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]),
    drain: Number(/^Environment=DRAIN_MS=(\d+)$/m.exec(text)?.[1]),
  }));
  t.deepEqual([pods.length, services.length, units.length], [4, 4, 2]);
  for (const { patience, drain } of [...pods, ...services, ...units])
    t.true(patience > drain, `${patience} > ${drain}`);
});

test('what the operations documents link to is there', (t) => {
  for (const { name, text } of readOperations('docs/operations/*.md')) {
    const missing = linksOf(text).filter((link) => !existsSync(path.join(root, path.dirname(name), link)));
    t.deepEqual(missing, [], name);
  }
});

test('what the image and the kustomization are made of is there', (t) => {
  const [dockerfile] = readOperations('docs/operations/Dockerfile');
  const [ignore] = readOperations('docs/operations/Dockerfile.dockerignore');
  const copied = [...(dockerfile?.text ?? '').matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, from = '']) =>
    from.split(' '),
  );
  t.true(copied.includes('workers'));
  for (const name of copied) {
    t.true(existsSync(path.join(root, name)), name);
    t.true(ignore?.text.split('\n').includes(`!${name}`), `${name} is let through by Dockerfile.dockerignore`);
  }
  const kustomization = readOperations('docs/operations/kubernetes/kustomization.yaml').flatMap(yamlOf)[0];
  for (const name of (kustomization as { resources: string[] }).resources) {
    t.true(existsSync(path.join(root, 'docs/operations/kubernetes', name)), name);
  }
});

test('the processes that the files start are there', (t) => {
  const started = operationsFiles().flatMap(({ text }) =>
    [...text.matchAll(/\bnode,? "?((?:api|workers)\/\w+\.ts)/g)].map(([, script = '']) => script),
  );
  t.true(started.length >= 6, String(started.length));
  for (const script of started) t.true(existsSync(path.join(root, script)), script);
});
