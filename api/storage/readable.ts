import type { BaseCall, DataCall } from '#api/call.ts';
import { noObject } from '#domain/storage/errors.ts';
import { type Place, requireObject, requirePublic } from '#domain/storage/objects.ts';
import type { StoredObject } from '#domain/storage/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { storageCall } from './call.ts';

const isNotFound = (error: unknown): boolean => error instanceof ServiceError && error.code === 'not_found';

/** The object as policies let the caller see it; what is public everybody may. */
export const readable = async (
  call: BaseCall & DataCall,
  place: Place,
): Promise<{ object: StoredObject; isPublic: boolean }> => {
  const as = storageCall(call);
  try {
    return { object: await requireObject(call.deps.storage, as, place), isPublic: false };
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const object = await requirePublic(call.deps.storage, as, place).catch((error: unknown) => {
    throw isNotFound(error) ? noObject() : error;
  });
  return { object, isPublic: true };
};
