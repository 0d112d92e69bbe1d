import { partsOf } from './event-parts.ts';
import type { EventRow } from './types.ts';

/** What is sent of an event; more is left out, and a link to it stands instead. */
export const maxDataBytes = 256 * 1024;

/**
 * What a webhook is sent. Put together as text, since parsing would change numbers.
 * @param name of the event as the webhook asked for it
 * @param dataUrl stands instead of the data where these are larger than `maxDataBytes`; null: the data are sent
 */
export const bodyOf = (event: EventRow, name: string, dataUrl: string | null): Buffer => {
  const { id, project_id: projectId, created_at: createdAt } = event;
  const head = JSON.stringify({ id, event: name, project_id: projectId, timestamp: createdAt.toISOString() });
  if (dataUrl !== null) return Buffer.from(`${head.slice(0, -1)},"data_url":${JSON.stringify(dataUrl)}}`);
  const { data, old } = partsOf(event);
  return Buffer.from(`${head.slice(0, -1)},"data":${data}${old === null ? '' : `,"old":${old}`}}`);
};
