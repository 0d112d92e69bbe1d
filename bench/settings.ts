/** @throws {Error} when the variable is missing: the benchmarks run only inside `npm run bench` */
export const requiredIn = (env: NodeJS.ProcessEnv, name: string): string => {
  const value = env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set: run this with npm run bench`);
  return value;
};
