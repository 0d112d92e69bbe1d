/** A small project that works: a person makes it with one click and reads how it is called. */
export interface Example {
  readonly name: string;
  readonly title: string;
  readonly summary: string;
  /** For a person: what the project has afterwards. */
  readonly makes: readonly string[];
  /** Tables, policies and the first rows, as one migration: all of it, or nothing. */
  readonly sql: string;
  readonly functions: readonly ExampleFunction[];
  /**
   * How the project is called. `{{rest_url}}`, `{{publishable_key}}`, `{{secret_key}}` and the names of `secrets` stand
   * for values of the project; each program runs as it is once they are filled in.
   */
  readonly code: Readonly<Record<'javascript' | 'python' | 'curl', string>>;
}

export interface ExampleFunction {
  /** Its slug is the same. */
  readonly name: string;
  readonly code: string;
  readonly access: 'public' | 'user' | 'secret';
  /** Variables that are made at random, by the name under which `code` of the example has them. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** When it runs by itself, in UTC. */
  readonly schedule?: string;
}
