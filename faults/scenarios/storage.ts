import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import { openBytes } from '#domain/storage/bytes.ts';
import { checkFiles } from '#domain/storage/check.ts';
import { sweepFiles } from '#domain/storage/sweep.ts';
import { loadConfig } from '#lib/config.ts';
import { openS3Server } from '#test/support/s3-server.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';
import { type Site, type SiteOptions, bucketOf, openSite, sha256 } from './storage-site.ts';
import { type Send, type Uploads, sendPlain, sendTus, startUploads, uploaders } from './storage-uploads.ts';

const wrongContents = async ({ url, project }: Site, bucket: string, uploads: Uploads): Promise<string[]> => {
  const wrong: string[] = [];
  for (const [name, contents] of uploads.possible) {
    const answer = await fetch(`${url()}/storage/v1/object/${bucket}/${name}`, { headers: { apikey: project.key } });
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.status === 404 && !uploads.acknowledged.has(name)) continue;
    if (answer.status !== 200 || !contents.has(sha256(bytes))) {
      wrong.push(`${name} is none of what was put there (${answer.status})`);
    }
  }
  return wrong;
};

/** Rows and bytes agree, and what is left over goes with the sweep. */
const compared = async (scene: Scene, { project, settings }: Site): Promise<string[]> => {
  const config = loadConfig({ ...scene.env, ...settings });
  const platform = await openPlatform(config, pino({ level: 'silent' }));
  try {
    const found = await findProject(platform.db, project.id);
    if (found === undefined) return ['the project is gone'];
    const deps = { servers: platform.servers, bytes: await openBytes(config), keepHours: -1, config };
    const before = await checkFiles(deps, found);
    const { removed, orphans } = await sweepFiles(deps, found, new AbortController().signal);
    await deps.bytes.removeUnfinished(new Date(Date.now() + 60_000));
    let unfinished = 0;
    for await (const _ of deps.bytes.unfinished()) unfinished += 1;
    scene.stage.print(`  ${removed} replaced contents and ${orphans} orphans were swept`);
    return [
      ...before.filter(({ kind }) => kind !== 'orphan').map(({ kind, what }) => `${kind}: ${what}`),
      ...(await checkFiles(deps, found)).map(({ kind, what }) => `after the sweep ${kind}: ${what}`),
      ...(unfinished > 0 ? [`${unfinished} unfinished writes are left`] : []),
    ];
  } finally {
    await platform.close();
  }
};

interface Kills {
  readonly name: string;
  readonly did: string;
  readonly send: Send;
  readonly processes: number;
  readonly kills: number;
  /** After the process is up again. */
  readonly latestKillMs: number;
  readonly maxBytes: number;
  /** Fewer acknowledged uploads would have tested too little. */
  readonly minWell: number;
  readonly openStore?: () => Promise<{ readonly settings: SiteOptions['store']; readonly close: () => void }>;
}

const onDisk = () => Promise.resolve({ settings: {}, close: () => undefined });

const onS3 = async () => {
  const { settings, close } = await openS3Server();
  return {
    settings: {
      PLINTH_STORAGE: 's3',
      PLINTH_S3_ENDPOINT: settings.endpoint,
      PLINTH_S3_BUCKET: settings.bucket,
      PLINTH_S3_REGION: settings.region,
      PLINTH_S3_ACCESS_KEY_ID: settings.accessKeyId,
      PLINTH_S3_SECRET_ACCESS_KEY: settings.secretAccessKey,
      PLINTH_S3_FORCE_PATH_STYLE: 'on',
    },
    close,
  };
};

const killedAmidst = async (
  scene: Scene,
  site: Site,
  { send, kills, latestKillMs, maxBytes, minWell }: Kills,
): Promise<string[]> => {
  const bucket = await bucketOf(site);
  const uploads = startUploads(site, { send, bucket, maxBytes });
  scene.faultBegins();
  for (let n = 0; n < kills; n += 1) {
    await pause(Math.random() * latestKillMs);
    await site.kill();
  }
  scene.faultIsOver();
  const done = await uploads.stop();
  const wrong = await wrongContents(site, bucket, done);
  await site.end();
  scene.stage.print(`  ${done.well} uploads were acknowledged`);
  return [
    ...wrong,
    ...(await compared(scene, site)),
    ...(done.well < minWell ? [`only ${done.well} uploads went well`] : []),
  ];
};

const killed = (of: Kills): Scenario => ({
  name: of.name,
  did: `${of.kills} times kill -9 of ${of.did}: each file is whole and one of those that may be there, rows and bytes agree, and nothing is left over after a sweep`,
  isWitnessed: false,
  run: async (scene) => {
    const store = await (of.openStore ?? onDisk)();
    try {
      const site = await openSite(scene, { processes: of.processes, store: store.settings });
      return await killedAmidst(scene, site, of);
    } finally {
      store.close();
    }
  },
});

const plain = { send: sendPlain, processes: 1 } as const;
const resumable = { send: sendTus, processes: 2 } as const;

export const storageScenarios: readonly Scenario[] = [
  killed({
    ...plain,
    name: 'storage: API killed amidst uploads',
    did: `the API at a random moment, while ${uploaders} clients replace files of up to 2 MB`,
    kills: 20,
    latestKillMs: 700,
    maxBytes: 2_000_000,
    minWell: 20,
  }),
  killed({
    ...resumable,
    name: 'storage: API killed amidst resumable uploads',
    did: `one of two APIs at a random moment, while ${uploaders} tus clients send files of up to 3 MB in pieces and go on at either of them`,
    kills: 20,
    latestKillMs: 700,
    maxBytes: 3_000_000,
    minWell: 20,
  }),
  killed({
    ...plain,
    name: 'storage: API killed amidst uploads to S3',
    did: `the API at a random moment, while ${uploaders} clients replace files of up to 12 MB that go to S3, the larger ones in parts`,
    kills: 20,
    latestKillMs: 3000,
    maxBytes: 12_000_000,
    minWell: 10,
    openStore: onS3,
  }),
  killed({
    ...resumable,
    name: 'storage: API killed amidst resumable uploads to S3',
    did: `one of two APIs at a random moment, while ${uploaders} tus clients send files of up to 12 MB to S3 in pieces and go on at either of them`,
    kills: 20,
    latestKillMs: 700,
    maxBytes: 12_000_000,
    minWell: 6,
    openStore: onS3,
  }),
];
