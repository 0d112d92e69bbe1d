import test from 'ava';
import { type FollowedEvent, createFollowed } from '#domain/jobs/follow.ts';
import { lastLogLines } from '#domain/jobs/logs.ts';
import { heldRuns, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

test('progress and log lines of a run are kept', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker((data, context) => {
    context.progress(41.6);
    context.log('info', 'half \0 way');
    context.log('warn', 'x'.repeat(20_000));
    context.log('error', `${'y'.repeat(16_384)}… [5 characters cut]`);
    return held.run(data, context);
  });
  const id = await scene.accept(testJobs.once);
  await until(async () => (await scene.row(id)).progress === 42);
  held.release();
  await scene.rowWhen(id, 'succeeded');
  const lines = await until(async () => {
    const rows = await lastLogLines(scene.db, id, 10);
    return rows.length === 3 && rows.map(({ level, message }) => ({ level, message }));
  });
  t.is(`${lines[0]?.level} ${lines[0]?.message.slice(0, 20)}`, 'info half \uFFFD way');
  t.deepEqual(lines[1], { level: 'warn', message: `${'x'.repeat(16_384)}… [3616 characters cut]` });
  // As the sandbox has cut it.
  t.deepEqual(lines[2], { level: 'error', message: `${'y'.repeat(16_384)}… [5 characters cut]` });
});

test('the last progress of a run stands in its row, however short the run was', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker((_data, context) => {
    context.progress(10);
    context.progress(70);
    // Progress of a part of nothing.
    context.progress(Number.NaN);
    return Promise.resolve(succeeded());
  });
  const id = await scene.accept(testJobs.once);
  t.is((await scene.rowWhen(id, 'succeeded')).progress, 70);
});

test('what was said before a worker stopped is written when it has stopped', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  const engine = await scene.startWorker(async (data, context) => {
    const outcome = await held.run(data, context);
    context.log('info', 'the last words');
    return outcome;
  });
  const id = await scene.accept(testJobs.once);
  await scene.rowWhen(id, 'running');
  const drained = engine.drain();
  held.release();
  await drained;
  t.deepEqual(
    (await lastLogLines(scene.db, id, 10)).map(({ message }) => message),
    ['the last words'],
  );
});

test('lines of a flood travel in flushes, and empty ones count 32 bytes each', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker((_data, context) => {
    for (let i = 0; i < 100_000; i += 1) context.log('info', '');
    return Promise.resolve(succeeded());
  });
  const id = await scene.accept(testJobs.once);
  await scene.rowWhen(id, 'succeeded');
  const parts = await until(async () => {
    const rows = await scene.db.query<{ lines: number }>('select lines from job_log_parts where job_id = $1', [id]);
    return rows.length > 0 && rows;
  });
  t.deepEqual(parts, [{ lines: (256 * 1024) / 32 }]);
});

test('log lines are published only while somebody listens, and then before the end', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(async (data, context) => {
    context.log('info', 'before anybody listens');
    const outcome = await held.run(data, context);
    context.log('info', 'one');
    context.log('warn', 'two');
    return outcome;
  });
  // Redis does not count those who listen by a pattern.
  const monitor = scene.queues.redis.duplicate();
  t.teardown(() => monitor.disconnect());
  const published: string[] = [];
  monitor.on('pmessage', (_pattern: string, channel: string, text: string) => published.push(`${channel} ${text}`));
  await until(() => monitor.status === 'ready');
  await monitor.psubscribe('*');
  const unheard = await scene.accept(testJobs.once);
  const receivedOf = await scene.accept(testJobs.once);
  const events: string[] = [];
  const stop = await scene.queues.subscriber.follow(receivedOf, (event) => {
    if (event.event === 'log') events.push(`${event.line} ${event.message}`);
    if (event.event === 'status') events.push(event.status);
  });
  t.teardown(stop);
  held.release();
  await scene.rowWhen(unheard, 'succeeded');
  await until(() => events.includes('succeeded'));
  t.deepEqual(events.slice(-3), ['2 one', '3 two', 'succeeded']);
  const ofJob = (id: string): string[] => published.filter((text) => text.includes(id) && text.includes('"logs"'));
  await until(() => published.some((text) => text.includes(unheard) && text.includes('succeeded')));
  t.deepEqual(ofJob(unheard), []);
  t.true(ofJob(receivedOf).length > 0);
});

test('a run that logs without end is kept to 256 KB', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker((_data, context) => {
    for (let i = 0; i < 100; i += 1) context.log('info', 'x'.repeat(10_000));
    return Promise.resolve(succeeded());
  });
  const id = await scene.accept(testJobs.once);
  await scene.rowWhen(id, 'succeeded');
  const total = await until(async () => {
    const lines = await lastLogLines(scene.db, id, 1000);
    const length = lines.reduce((sum, { message }) => sum + message.length, 0);
    return length >= 260_000 && length;
  });
  t.is(total, 260_000);
});

test('who follows a job hears of its start, progress, log and end', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.row(id);
  const followed = createFollowed({ db: scene.db, jobs: scene.jobs, subscriber: scene.queues.subscriber });
  const received: FollowedEvent[] = [];
  await followed.follow({ id, project_id: projectId }, (event) => received.push(event));
  await scene.startWorker((_data, context) => {
    context.progress(100);
    context.log('info', 'hello');
    return Promise.resolve(succeeded('x'));
  });
  await until(() => received.some(({ event }) => event === 'end'));
  t.like(received[0], { event: 'status', status: 'running', attempt: 1 });
  t.like(received[1], { event: 'progress', progress: 100 });
  t.like(received[2], { event: 'log', level: 'info', message: 'hello' });
  t.like(received[3], { event: 'end', row: { status: 'succeeded', result: '"x"' } });
  t.is(received.length, 4);
});

test('who follows a job hears of its end when Redis tells nothing, from its row', async (t) => {
  const scene = await openEngine(t);
  const unsubscribed = { follow: () => new Promise<() => void>(() => undefined) };
  const followed = createFollowed({ db: scene.db, jobs: scene.jobs, subscriber: unsubscribed });
  const ends: Record<string, FollowedEvent[]> = {};
  for (const [what, change] of [
    ['ended', `update jobs set status = 'expired', finished_at = now() where id = $1`],
    ['gone', 'delete from jobs where id = $1'],
  ] as const) {
    const id = await scene.accept(testJobs.once);
    const { project_id: projectId } = await scene.row(id);
    const received: FollowedEvent[] = [];
    await followed.follow({ id, project_id: projectId }, (event) => received.push(event));
    await scene.db.query(change, [id]);
    await until(() => received.length > 0);
    ends[what] = received;
  }
  t.like(ends['ended'], { length: 1, 0: { event: 'end', row: { status: 'expired' } } });
  t.like(ends['gone'], { length: 1, 0: { event: 'end', row: null } });
});

test('of many who begin to follow a job at once each hears what is told from then on', async (t) => {
  const scene = await openEngine(t);
  const { subscriber, signals } = scene.queues;
  const received = [0, 0, 0];
  const following = received.map((_, i) => subscriber.follow('some job', () => (received[i] = (received[i] ?? 0) + 1)));
  await following[2];
  signals.announce('some job', { event: 'progress', progress: 1 });
  await until(() => received.every((count) => count === 1));
  const stops = await Promise.all(following);
  stops[0]?.();
  stops[0]?.();
  signals.announce('some job', { event: 'progress', progress: 2 });
  await until(() => received[1] === 2 && received[2] === 2);
  t.deepEqual(received, [1, 2, 2]);
});

test('who stopped following hears no more', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.row(id);
  const followed = createFollowed({ db: scene.db, jobs: scene.jobs, subscriber: scene.queues.subscriber });
  const [left, stays]: FollowedEvent[][] = [[], []];
  const stop = await followed.follow({ id, project_id: projectId }, (event) => left?.push(event));
  await followed.follow({ id, project_id: projectId }, (event) => stays?.push(event));
  stop();
  await scene.startWorker(() => Promise.resolve(succeeded()));
  await until(() => stays?.some(({ event }) => event === 'end'));
  t.deepEqual(left, []);
});
