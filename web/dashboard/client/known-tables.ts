/** A column as editors offer it. */
export interface KnownColumn {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  /** The values of an enum; null: it is none. */
  readonly values: readonly string[] | null;
}

/** Tables and their columns; those of another schema than public stand under `schema.name`. */
export type KnownTables = Readonly<Record<string, readonly KnownColumn[]>>;

/** The type of a column, and whether it may be left empty. */
export const typeWords = ({ type, nullable }: KnownColumn): string => (nullable ? type : `${type}, not null`);
