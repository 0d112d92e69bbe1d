export default {
  extensions: ['ts'],
  files: ['test/**/*.test.ts'],
  nodeArguments: ['--no-node-snapshot'],
  workerThreads: false,
  // Each file holds its own database, Redis keys and sandboxed processes: two cores serve three files well.
  concurrency: 3,
  timeout: '120s',
};
