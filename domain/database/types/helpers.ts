/** Short names for what is in `Database`; a second schema would be the second parameter's. */
export const helperTypes = `type SchemaName = keyof Database;
type Relations<S extends SchemaName> = Database[S]['Tables'] & Database[S]['Views'];
type Part<Relation, Use extends string> = Relation extends { [Key in Use]: infer Found } ? Found : never;

export type Tables<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Row'>;
export type TablesInsert<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Insert'>;
export type TablesUpdate<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Update'>;
export type Enums<Name extends keyof Database[S]['Enums'], S extends SchemaName = 'public'> = Database[S]['Enums'][Name];
export type CompositeTypes<
  Name extends keyof Database[S]['CompositeTypes'],
  S extends SchemaName = 'public',
> = Database[S]['CompositeTypes'][Name];`;
