import type { StoragePlace } from '#lib/object-store/open-object-store.ts';
import { createDiskUploads } from './disk-uploads.ts';
import { createS3Uploads } from './s3-uploads.ts';
import type { ResumableUploads } from './uploads.ts';

/** The half-finished uploads of a store lie beside its files. */
export const openUploads = (place: StoragePlace): ResumableUploads =>
  place.driver === 's3' ? createS3Uploads(place.bucket) : createDiskUploads(place.root);
