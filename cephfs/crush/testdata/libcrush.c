// Maps inputs with the crush functions of Ceph's libceph-common, over a tree of
// racks, hosts and disks in straw2 buckets, and prints the CPU time of a mapping
// in nanoseconds and a checksum of the devices. Usage: libcrush RACKS HOSTS DISKS
// REPLICAS FROM COUNT. See compare_test.go.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *crush_create(void);
void *crush_make_bucket(void *map, int alg, int hash, int type, int size, int *items, int *weights);
int crush_add_bucket(void *map, int id, void *bucket, int *idout);
void *crush_make_rule(int len, int ruleset, int type, int minsize, int maxsize);
void crush_rule_set_step(void *rule, int step, int op, int arg1, int arg2);
int crush_add_rule(void *map, void *rule, int ruleno);
void crush_finalize(void *map);
void crush_init_workspace(const void *map, void *work);
int crush_do_rule(const void *map, int rule, int x, int *result, int max, const unsigned *weights, int n, void *work, const void *args);

enum { straw2 = 5, most = 256 };

static int bucket(void *map, int type, int n, int *items, int weight) {
  int weights[most], id;
  for (int i = 0; i < n; i++)
    weights[i] = weight;
  crush_add_bucket(map, 0, crush_make_bucket(map, straw2, 0, type, n, items, weights), &id);
  return id;
}

int main(int argc, char **argv) {
  if (argc != 7)
    return 2;
  int racks = atoi(argv[1]), hosts = atoi(argv[2]), disks = atoi(argv[3]), replicas = atoi(argv[4]), from = atoi(argv[5]), count = atoi(argv[6]);
  int devices = racks * hosts * disks, next = 0, root_items[most], rack_items[most], host_items[most], result[most];
  void *map = crush_create();
  for (int r = 0; r < racks; r++) {
    for (int h = 0; h < hosts; h++) {
      for (int d = 0; d < disks; d++)
        host_items[d] = next++;
      rack_items[h] = bucket(map, 1, disks, host_items, 0x10000);
    }
    root_items[r] = bucket(map, 2, hosts, rack_items, disks << 16);
  }
  int root = bucket(map, 3, racks, root_items, (hosts * disks) << 16);
  void *rule = crush_make_rule(3, 0, 1, 1, 10);
  crush_rule_set_step(rule, 0, 1, root, 0);
  crush_rule_set_step(rule, 1, 6, 0, 1);
  crush_rule_set_step(rule, 2, 4, 0, 0);
  crush_add_rule(map, rule, 0);
  crush_finalize(map);
  unsigned *weights = malloc(devices * sizeof *weights), sum = 0;
  for (int i = 0; i < devices; i++)
    weights[i] = i % 9 ? 0x10000 : 0x8000;
  void *work = malloc(1 << 22);
  crush_init_workspace(map, work);
  struct timespec a, z;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  for (int x = from; x < from + count; x++) {
    int n = crush_do_rule(map, 0, x, result, replicas, weights, devices, work, 0);
    for (int i = 0; i < n; i++)
      sum = sum * 31 + result[i];
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &z);
  printf("%.1f %u\n", ((z.tv_sec - a.tv_sec) * 1e9 + (z.tv_nsec - a.tv_nsec)) / count, sum);
}
