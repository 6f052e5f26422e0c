/* HKK_LEVEL is the name of the level that a file defines: its functions carry it. */
#ifndef HKK_TMPL_LEVEL_H
#define HKK_TMPL_LEVEL_H

#define HKK_JOIN(a, b) a##_##b
#define HKK_NAMED(a, b) HKK_JOIN(a, b)
#define FN(name) HKK_NAMED(name, HKK_LEVEL)

#endif
