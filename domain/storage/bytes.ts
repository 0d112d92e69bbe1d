import { type StorageSettings, openStoragePlace } from '#lib/object-store/open-object-store.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';

/** Where the bytes of files lie, as the settings say. */
export const openBytes = async (config: StorageSettings): Promise<StorageDriver> =>
  (await openStoragePlace(config)).store;
