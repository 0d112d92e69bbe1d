/** The data of a BullMQ job; everything else is in the job's row. */
export interface HandedOver {
  readonly projectId: string;
  /** The shard's life in which it was handed over; in a later one it may not begin. */
  readonly epoch: string;
}

/** The lease under which a job was handed over: a job that is handed over again has another one. */
export interface Lease {
  readonly id: string;
  readonly nonce: string;
}

/** BullMQ's id of a job: the row's id, and which of its leases this is. */
export const bullIdOf = ({ id, nonce }: Lease): string => `${id}.${nonce}`;

export const leaseOf = (bullId: string): Lease => {
  const [id = '', nonce = ''] = bullId.split('.');
  return { id, nonce };
};
