'use strict';
/** The object that a handler gets beside its payload (interface, "Functions"). */
const createSdk = ({ call, env, projectId, caller, request }) =>
  Object.freeze({
    db: createDb(call),
    asCaller: Object.freeze({ db: createDb((op, args) => call(`asCaller.${op}`, args)) }),
    env,
    projectId,
    caller: caller && Object.freeze(caller),
    user: caller?.user ?? null,
    get request() {
      return request && request();
    },
  });

/** The project's own database. Names of tables and columns are quoted outside, values are bound there. */
function createDb(call) {
  return Object.freeze({
    ...operations(call, null),
    /** The changes that `work` makes through its argument are kept whole, or not at all when it throws. */
    transaction: async (work) => {
      if (typeof work !== 'function') throw new TypeError('db.transaction needs a function');
      const tx = await call('db.begin', {});
      try {
        const result = await work(Object.freeze(operations(call, tx)));
        await call('db.commit', { tx });
        return result;
      } catch (error) {
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
