import type { StoragePlace } from '#lib/object-store/open-object-store.ts';
import { createDiskUploads } from './disk-uploads.ts';
import type { ResumableUploads } from './uploads.ts';

/** The half-finished uploads of a store lie beside its files. */
export const openUploads = async (place: StoragePlace): Promise<ResumableUploads> => {
  if (place.driver === 'disk') return createDiskUploads(place.root);
  const { createS3Uploads } = await import('./s3-uploads.ts');
  return createS3Uploads(place.bucket);
};
