'use strict';
/** The object that a handler gets beside its payload (interface, "Functions"). */
const createSdk = ({ call, log, env, projectId, caller, request, attempt, step, waitUntil }) => {
  let storage;
  const open = new Set();
  return Object.freeze({
    db: createDb(call, open),
    // Within the callback of a transaction, as far as that can be known: when it is the only one that is open.
    jobs: createJobs(call, () => (open.size === 1 ? [...open][0] : null)),
    events: createEvents(call),
    attempt,
    step,
    asCaller: Object.freeze({ db: createDb((op, args) => call(`asCaller.${op}`, args)) }),
    log,
    flags: createFlags(call, caller?.user ?? null),
    // Loaded by the first run that asks for it.
    get storage() {
      return (storage ??= require('./storage.cjs').createStorage(call));
    },
    env,
    projectId,
    caller: caller && Object.freeze(caller),
    user: caller?.user ?? null,
    waitUntil: (work) => waitUntil(work),
    get request() {
      return request && request();
    },
  });
};

const isContext = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * `get(key, context?, default)`: the default where the flag is not there, is off, cannot be known, or has a value of
 * another type. The claims of the user who calls are part of the context.
 */
function createFlags(call, user) {
  const get = async (key, ...rest) => {
    const [context, fallback = null, options = {}] = rest.length > 1 || isContext(rest[0]) ? rest : [{}, ...rest];
    const whole = { ...(user && { targetingKey: user.sub, ...user }), ...context };
    const found = await call('flags.get', { key, context: whole, environment: options?.environment });
    if (found === null) return fallback;
    return fallback === null || typeof fallback === typeof found.value ? found.value : fallback;
  };
  return Object.freeze({ get });
}

/** Jobs that run functions of the project. Those of a transaction exist only if it commits. */
function createJobs(call, transaction) {
  const enqueueMany = async (slug, jobs) => {
    if (!Array.isArray(jobs)) throw new TypeError('jobs.enqueueMany needs a list of jobs');
    const tx = transaction();
    return call(tx === null ? 'jobs.enqueue' : 'db.enqueue', { tx, slug, jobs });
  };
  return Object.freeze({
    enqueueMany,
    enqueue: async (slug, payload = null, options = {}) => {
      const [job] = await enqueueMany(slug, [{ ...options, payload }]);
      return job;
    },
  });
}

/** Events of the project's own, which functions with a trigger for them answer to. */
function createEvents(call) {
  return Object.freeze({
    emit: async (name, data = null) => {
      await call('events.emit', { name, data });
    },
  });
}

/**
 * The project's own database. Names of tables and columns are quoted outside, values are bound there.
 * @param open holds the transactions that may enqueue jobs while they are open; null: those of this database may not
 */
function createDb(call, open = null) {
  return Object.freeze({
    ...operations(call, null),
    /** The changes that `work` makes through its argument are kept whole, or not at all when it throws. */
    transaction: async (work) => {
      if (typeof work !== 'function') throw new TypeError('db.transaction needs a function');
      const tx = await call('db.begin', {});
      open?.add(tx);
      try {
        const jobs = open && { jobs: createJobs(call, () => tx) };
        const result = await work(Object.freeze({ ...operations(call, tx), ...jobs }));
        open?.delete(tx);
        await call('db.commit', { tx });
        return result;
      } catch (error) {
        open?.delete(tx);
        await call('db.rollback', { tx }).catch(() => undefined);
        throw error;
      }
    },
  });
}

const operations = (call, tx) => ({
  query: (sql, params) => call('db.query', { tx, sql, params }),
  queryOne: (sql, params) => call('db.queryOne', { tx, sql, params }),
  insert: (table, data) => call('db.insert', { tx, table, data }),
  select: (table, where, params) => call('db.select', { tx, table, where, params }),
  update: (table, data, where, params) => call('db.update', { tx, table, data, where, params }),
  remove: (table, where, params) => call('db.remove', { tx, table, where, params }),
});

module.exports = { createSdk };
