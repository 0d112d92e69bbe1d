/** The input of a command: its arguments and the checkout it belongs to. Resolves with the exit code. */
export type Command = (args: readonly string[], root: string) => Promise<number>;
