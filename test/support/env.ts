/**
 * The environment that `npm test` provides. Tests are not part of the platform, whose settings are read in
 * lib/config.ts only.
 */
export const testEnv = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run the tests with npm test`);
  return value;
};

export const optionalTestEnv = (name: string): string | undefined => process.env[name];
