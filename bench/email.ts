import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { SMTPServer } from 'smtp-server';
import { systemActor } from '#domain/audit/actor.ts';
import { controlMigrations } from '#domain/control-schema.ts';
import { defaultTemplates, sampleVariables } from '#domain/email/templates.ts';
import { emailRequest } from '#domain/email/email.ts';
import { renderHtml, textOf } from '#domain/email/render.ts';
import { setEmailSettings } from '#domain/email/settings.ts';
import { openTransport } from '#domain/email/transport.ts';
import { createTransports } from '#domain/email/transports.ts';
import { openJobs } from '#domain/jobs/open.ts';
import { type Config, loadConfig } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { createEgress } from '#lib/egress.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { migrate } from '#lib/migrate.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { emailSend } from '#queues/email-send.ts';
import { createThrowawayDatabase } from '#scripts/infra/throwaway-database.ts';
import { startEngine } from '#workers/engine.ts';
import { emailSendProcessor } from '#workers/processors/email-send.ts';
import { type Bench, type Benchmark, type Row, byTurns, digits, median, perSecond, range } from './harness.ts';
import { requiredIn } from './settings.ts';

const mails = 2000;
const rounds = 3;
const connections = 4;
const callers = 50;

const project = { name: 'Bench' };

/** Takes everything; counts. */
const startReceiver = async () => {
  let received = 0;
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS', 'AUTH'],
    disableReverseLookup: true,
    onData: (stream, _session, done) => {
      stream.resume().once('end', () => {
        received += 1;
        done();
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  return { port: (server.server.address() as AddressInfo).port, received: () => received, close: () => server.close() };
};

const addProject = async (db: ControlDb, config: Config, port: number) => {
  const keys = openKeyRing(config.PLINTH_SECRET_KEYS);
  const id = newId();
  const dataKey = keys.newDataKey(id);
  await db.transaction(async (tx) => {
    await tx.query(`insert into organizations (id, name) values ('benchmarkmail000', 'bench')`);
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       select $1, 'benchmarkmailproject', 'benchmarkmail000', s.id, $2, 'p', 'enterprise', 'active', 'p', $3
       from database_servers s limit 1`,
      [id, project.name, dataKey],
    );
    const settings = { host: '127.0.0.1', port, username: '', from_email: 'bench@example.com', from_name: 'Bench' };
    await setEmailSettings(tx, id, settings, keys.sealerFor(id, dataKey));
  }, systemActor);
  return { id, name: project.name, data_key: dataKey };
};

/** `work(i)` for each of the mails, so many at a time. */
const forEachMail = async (atOnce: number, work: (i: number) => Promise<unknown>): Promise<void> => {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < mails) {
      next += 1;
      await work(next);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
};

interface Scene {
  readonly config: Config;
  readonly db: ControlDb;
  readonly log: Log;
  readonly receiver: Awaited<ReturnType<typeof startReceiver>>;
}

const variables = sampleVariables('signup', project.name);

/** Mails a second, from the request to the record of the server's word. */
const measureOurs = async ({ config, db, log, receiver }: Scene, of: Awaited<ReturnType<typeof addProject>>) => {
  const egress = createEgress({ allow: undefined, local: true });
  const keys = openKeyRing(config.PLINTH_SECRET_KEYS);
  const projects = { sealer: (row: { id: string; data_key: Buffer }) => keys.sealerFor(row.id, row.data_key) };
  const transports = createTransports({ db, egress, local: true });
  const processor = emailSendProcessor({ db, projects, transports, local: true, log });
  const queues = openJobs({ config, log, db, jobs: [emailSend] });
  const engine = await startEngine({ config, log, db, jobs: [emailSend], processors: { 'email.send': processor } });
  const deps = { db, projects, local: true };
  const unsent = async (): Promise<number> =>
    (await db.query<{ n: number }>(`select count(*) as n from emails where status <> 'sent'`))[0]?.n ?? 0;
  try {
    const [began, before] = [performance.now(), receiver.received()];
    await forEachMail(callers, async (i) => {
      const order = {
        project: of,
        template: 'signup',
        to: `user${i}@example.com`,
        variables,
        requestId: 'bench',
      } as const;
      await queues.jobs.run(await emailRequest(deps, order), 0);
    });
    while ((await unsent()) > 0) await delay(5);
    const rate = mails / ((performance.now() - began) / 1000);
    const twice = receiver.received() - before - mails;
    if (twice !== 0) throw new Error(`${twice} mails too many arrived`);
    return rate;
  } finally {
    await engine.drain();
    await engine.close();
    await queues.close();
    transports.close();
    await egress.close();
  }
};

/** The same mails by nodemailer's pool alone: nothing is sealed, queued or recorded. */
const measureFloor = async ({ receiver }: Scene): Promise<number> => {
  const egress = createEgress({ allow: undefined, local: true });
  const server = { host: '127.0.0.1', port: receiver.port, tls: 'offered', username: '', password: '' } as const;
  const transport = openTransport({ ...server, lookup: egress.lookup, plainTo: () => true, connections });
  const { signal } = new AbortController();
  const began = performance.now();
  await forEachMail(callers, (i) => {
    const html = renderHtml(defaultTemplates.signup.html_body, variables).text;
    const from = { name: 'Bench', address: 'bench@example.com' };
    const mail = { messageId: `${i}@example.com`, from, to: `user${i}@example.com`, subject: 'Hello', html };
    return transport.send({ ...mail, text: textOf(html) }, signal);
  });
  transport.close();
  await egress.close();
  return mails / ((performance.now() - began) / 1000);
};

const onScene = async <T>(bench: Bench, work: (scene: Scene) => Promise<T>): Promise<T> => {
  const database = await createThrowawayDatabase(requiredIn(bench.env, 'DATABASE_URL'));
  const receiver = await startReceiver();
  const log = pino({ level: 'silent' });
  const settings = {
    DATABASE_URL: database.url,
    PLINTH_REDIS_PREFIX: `bench-email-${process.pid}`,
    PLINTH_EMAIL_SLOTS: '50',
  };
  const config = loadConfig({ ...bench.env, ...settings });
  const db = openControlDb({ url: database.url, connections: config.PLINTH_DATABASE_POOL, log });
  try {
    await migrate(database.url, controlMigrations);
    return await work({ config, db, log, receiver });
  } finally {
    await db.close();
    receiver.close();
    await database.drop();
  }
};

const rowOf = (pairs: readonly { readonly ours: number; readonly floor: number }[]): Row => {
  const [ours, floor] = [pairs.map((pair) => pair.ours), pairs.map((pair) => pair.floor)];
  return {
    name: 'email: send jobs to a local server, one project',
    ours: perSecond(median(ours)),
    floor: perSecond(median(floor)),
    ratio: median(ours) / median(floor),
    target: { of: 'ours', atLeast: 200 },
    notes: [
      `${rounds} rounds of ${digits(mails)} mails: ${range(ours)}/s; floor ${range(floor)}/s`,
      'from the request to the record of the server’s 250, with template, sealing, job and text part; at most 4 connections',
      'the floor is the same pool without job and record; the receiving server runs in the same process',
    ],
  };
};

export const emailSending: Benchmark = {
  name: 'email/send',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const of = await addProject(scene.db, scene.config, scene.receiver.port);
      return [
        rowOf(
          await byTurns(
            rounds,
            () => measureOurs(scene, of),
            () => measureFloor(scene),
          ),
        ),
      ];
    }),
};
