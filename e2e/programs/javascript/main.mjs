// An informer of the JavaScript client, told as a story of checks.
//
//     main.mjs KUBECONFIG NAMESPACE  ──▶  any API server  ──▶  stdout: a report in JSON, exit code 1 if a check failed
//
// Nothing here knows which server it talks to.

import * as k8s from '@kubernetes/client-node';

const PATIENCE = 30_000;
const [, , kubeconfig, namespace] = process.argv;
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);

function same(what, seen, wanted) {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`${what}: ${left}, and it should be ${right}`);
}

async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`${what}: not in ${PATIENCE} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
const map = (name, labels) => ({ metadata: { name, labels }, data: { k: '1' } });
const create = (name, labels = { of: 'informer' }) =>
  core.createNamespacedConfigMap({ namespace, body: map(name, labels) });
const patch = (name, k) => core.patchNamespacedConfigMap({ name, namespace, body: { data: { k } } }, merge);
const remove = (name) => core.deleteNamespacedConfigMap({ name, namespace });

// An informer, and what it tells.
function informer(path, list, selector) {
  const heard = [];
  const made = k8s.makeInformer(config, path, list, selector);
  for (const event of ['add', 'update', 'delete']) {
    made.on(event, (object) => heard.push(`${event} ${object.metadata.name}`));
  }
  // A stop is an error of this name.
  made.on('error', (error) => error.name === 'AbortError' || heard.push(`error ${error}`));
  return { made, heard, has: (line) => () => heard.includes(line) };
}

const maps = () =>
  informer(
    `/api/v1/namespaces/${namespace}/configmaps`,
    () => core.listNamespacedConfigMap({ namespace, labelSelector: 'of=informer' }),
    'of=informer',
  );

const checks = {
  async 'an informer hears additions, updates and deletions'() {
    await create('a');
    const { made, heard, has } = maps();
    await made.start();
    await until('the first list', has('add a'));
    await create('b');
    await create('c', { of: 'another' });
    await until('the addition', has('add b'));
    await patch('b', '2');
    await until('the update', has('update b'));
    same('the cache', made.get('b', namespace).data, { k: '2' });
    await remove('a');
    await until('the deletion', has('delete a'));
    same('the cache', made.list(namespace).map((object) => object.metadata.name), ['b']);
    await made.stop();
    same('what was heard', heard, ['add a', 'add b', 'update b', 'delete a']);
  },

  async 'an informer that was stopped goes on where it was'() {
    const { made, heard, has } = maps();
    await made.start();
    await until('the first list', has('add b'));
    await made.stop();
    await patch('b', '3');
    await remove('b');
    await create('d');
    await made.start();
    await until('the addition', has('add d'));
    await until('the deletion', has('delete b'));
    await made.stop();
    same('what was heard', heard, ['add b', 'update b', 'delete b', 'add d']);
  },

  async 'an informer hears custom resources'() {
    const group = `${namespace}.example.com`;
    const schema = { openAPIV3Schema: { type: 'object', x_kubernetes_preserve_unknown_fields: true } };
    await config.makeApiClient(k8s.ApiextensionsV1Api).createCustomResourceDefinition({
      body: {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `widgets.${group}` },
        spec: {
          group,
          scope: 'Namespaced',
          names: { plural: 'widgets', singular: 'widget', kind: 'Widget' },
          versions: [{ name: 'v1', served: true, storage: true, schema }],
        },
      },
    });
    const of = { group, version: 'v1', namespace, plural: 'widgets' };
    const list = () => custom.listNamespacedCustomObject(of);
    await until('the resource is served', () => list().then(() => true, () => false));
    const { made, heard, has } = informer(`/apis/${group}/v1/namespaces/${namespace}/widgets`, list);
    await made.start();
    const body = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w' }, spec: { size: 3 } };
    await custom.createNamespacedCustomObject({ ...of, body });
    await until('the addition', has('add w'));
    await custom.patchNamespacedCustomObject({ ...of, name: 'w', body: { spec: { size: 4 } } }, merge);
    await until('the update', has('update w'));
    same('the cache', made.get('w', namespace).spec, { size: 4 });
    await custom.deleteNamespacedCustomObject({ ...of, name: 'w' });
    await until('the deletion', has('delete w'));
    await made.stop();
    same('what was heard', heard, ['add w', 'update w', 'delete w']);
  },

  async 'a conflict and a missing object are errors with a code'() {
    const code = (call) => call.then(() => 200, (error) => error.code);
    same('a second creation', await code(create('d')), 409);
    same('a missing object', await code(core.readNamespacedConfigMap({ name: 'none', namespace })), 404);
  },
};

await core.createNamespace({ body: { metadata: { name: namespace } } });
const report = [];
for (const [name, check] of Object.entries(checks)) {
  const began = Date.now();
  const failure = await check().then(() => '', (error) => String(error));
  report.push({ name, failure, seconds: (Date.now() - began) / 1000 });
}
process.stdout.write(JSON.stringify({ checks: report }), () =>
  process.exit(report.some((check) => check.failure) ? 1 : 0),
);
