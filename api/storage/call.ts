import type { BaseCall, DataCall } from '#api/call.ts';
import type { RawRequest } from '#api/raw-endpoint.ts';
import { requireBucketName, requireName } from '#domain/storage/names.ts';
import type { Place } from '#domain/storage/objects.ts';
import { type StorageCall, asPlatform } from '#domain/storage/storage.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { ServiceError, notFound } from '#lib/errors.ts';

export const storageRoot = '/p/{ref}/storage/v1';

/** The key names the project where the address does not. */
export const storageRoots = [storageRoot, '/storage/v1'] as const;

/** A caller by key or token. */
export const storageCall = (
  { project, caller, disconnection }: BaseCall & DataCall,
  signal: Disconnection = disconnection,
): StorageCall => ({ project, caller, signal });

/** The project of a path that needs no key. @throws {ServiceError} `not_found`, `project_not_ready` */
const projectOf = async ({ deps }: BaseCall, ref: string | undefined): Promise<Project> => {
  const project = ref === undefined ? undefined : await deps.keys.findProject(ref);
  if (project === undefined) throw notFound('project');
  if (project.status !== 'active')
    throw new ServiceError('project_not_ready', `The project is ${project.status}, not active.`);
  return project;
};

/** A caller without a credential, for what is public or signed. */
export const openCall = async (
  call: BaseCall,
  ref: string | undefined,
  signal: Disconnection = call.disconnection,
): Promise<StorageCall> => asPlatform({ project: await projectOf(call, ref), signal });

type Params = RawRequest['params'];

/** The object that a path names. @throws {ServiceError} `invalid_key` */
export const placeOf = ({ bucket = '', path = '' }: Params): Place => ({
  bucket: requireBucketName(bucket, 'bucket'),
  name: requireName(path, 'path'),
});

/** The path as it is: clients escape it themselves. */
export const signedPath = (part: string, url: string, token: string): string => `/${part}/${url}?token=${token}`;
