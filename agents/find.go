package agents

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
)

var (
	sqlNewest = ` AND a.put_aside_at IS NULL AND a.status = 'active' ORDER BY a.started_at DESC, a.session_id
		LIMIT 1`

	sqlInScope         = sqlRow + `WHERE a.scope = ?1 AND `
	sqlByHeddleSession = sqlInScope + paging.Same("a.heddle_session_id", "?2") + sqlNewest
	sqlByClient        = sqlInScope + paging.Same("a.client_instance_id", "?2") + sqlNewest
	sqlByActor         = sqlInScope + paging.Same("a.native_actor_key", "?2") + sqlNewest

	sqlPaths = `SELECT session_id, started_at, path, native_instance_key FROM agents
WHERE scope = ? AND put_aside_at IS NULL AND status = 'active' AND path IS NOT NULL
	AND started_at <= ? AND (started_at < ? OR session_id > ?)
ORDER BY started_at DESC, session_id LIMIT ?`
	sqlIsActive = sqlBySession + ` AND a.status = 'active'`
	sqlIsFresh  = sqlBySession + ` AND ` + sqlFresh
	sqlParentOf = sqlRow + `WHERE a.scope = ?1 AND ` + paging.Same("a.native_actor_key", "?2") + `
	AND a.put_aside_at IS NULL AND ` + sqlFresh + `
ORDER BY a.started_at, a.session_id DESC LIMIT 1`
)

// FindActiveByHeddleSessionID returns the active entry of that session, whether its agent is alive
// or not. If there are several, it is the one with the newest start. Like the other FindActive
// calls and ActorChainForSession, it puts stale entries aside. In a transaction, PageTx with a
// Filter does the same and puts nothing aside.
func (r *Registry) FindActiveByHeddleSessionID(ctx context.Context, id string) (Entry, bool, error) {
	return r.newest(ctx, "find agent by session", sqlByHeddleSession, id)
}

// FindActiveByClientInstanceID is FindActiveByHeddleSessionID by client instance.
func (r *Registry) FindActiveByClientInstanceID(ctx context.Context, id string) (Entry, bool, error) {
	return r.newest(ctx, "find agent by client", sqlByClient, id)
}

// FindActiveByNativeActorKey is FindActiveByHeddleSessionID by the harness's name of the actor.
func (r *Registry) FindActiveByNativeActorKey(ctx context.Context, key string) (Entry, bool, error) {
	return r.newest(ctx, "find agent by actor", sqlByActor, key)
}

func (r *Registry) newest(ctx context.Context, why, query, key string) (Entry, bool, error) {
	return r.one(ctx, r.look, why, query, key)
}

// one returns the first entry of a query with the scope and the key as arguments.
func (r *Registry) one(ctx context.Context, in stores.In[*db.Rx], why, query, key string,
) (Entry, bool, error) {
	return stores.Find(ctx, in, why, func(rx *db.Rx) (e Entry, ok bool, err error) {
		err = r.readTx(rx, why, "", func(scope int64) (err error) {
			e, ok, err = findOne(rx, query, scope, key)
			return err
		})
		return e, ok, err
	})
}

const opChain = "find actor chain"

// FindActiveByPath returns the active entry with the worktree worktreeRoot; if there are several,
// the one with the newest start. Links in both paths are resolved; a path that does not exist is
// compared as written.
func (r *Registry) FindActiveByPath(ctx context.Context, worktreeRoot string) (Entry, bool, error) {
	return r.atPath(ctx, "find agent by path", worktreeRoot, nil)
}

// FindActiveByNativeInstanceKeyAtPath is FindActiveByPath among the entries with that instance key.
func (r *Registry) FindActiveByNativeInstanceKeyAtPath(ctx context.Context, nativeInstanceKey,
	worktreeRoot string,
) (Entry, bool, error) {
	return r.atPath(ctx, "find agent by instance and path", worktreeRoot, &nativeInstanceKey)
}

type pathOf struct {
	ID        string  `db:"session_id"`
	StartedAt int64   `db:"started_at"`
	Path      string  `db:"path"`
	Instance  *string `db:"native_instance_key"`
}

// pathsAtOnce is how many paths are read before they are resolved. They are resolved outside any
// transaction, because they may lie on a file system that hangs.
const pathsAtOnce = 1000

func (r *Registry) atPath(ctx context.Context, why, root string, key *string) (e Entry, ok bool, err error) {
	paths := resolver{folders: map[string]*folder{}}
	canonical := paths.resolve(root)
	for after := first; ; {
		var candidates []pathOf
		err = r.look(ctx, why, func(rx *db.Rx) error {
			candidates = nil
			return r.readTx(rx, why, "", func(scope int64) error {
				return rx.Select(&candidates, sqlPaths, scope, after.startedAt, after.startedAt, after.id, pathsAtOnce)
			})
		})
		if err != nil {
			return Entry{}, false, err
		}
		for _, c := range candidates {
			after = place{c.StartedAt, c.ID}
			if key != nil && (c.Instance == nil || *c.Instance != *key) ||
				paths.resolve(c.Path) != canonical {
				continue
			}
			if e, ok, err = r.one(ctx, r.db.Read, why, sqlIsActive, c.ID); ok || err != nil {
				return e, ok, err
			}
		}
		if len(candidates) < pathsAtOnce {
			return Entry{}, false, nil
		}
	}
}

// A resolver follows the links of many paths. Most of them lie in few folders: each folder is
// resolved once, and one with many paths is read as a whole.
type resolver struct {
	folders map[string]*folder // by absolute path, with a trailing slash
}

type folder struct {
	resolved string // "" for one that does not exist
	asked    int    // how many names were asked for
	names    map[string]fs.DirEntry
}

// listedFrom is the number of names from which on a folder is read as a whole: reading it costs as
// much as looking up some dozens of names.
const listedFrom = 50

// entry reports whether a folder has the name, and whether it is a link.
func (f *folder) entry(name string) (there, link bool) {
	if f.asked++; f.asked == listedFrom {
		if list, err := os.ReadDir(f.resolved); err == nil {
			f.names = make(map[string]fs.DirEntry, len(list))
			for _, one := range list {
				f.names[one.Name()] = one
			}
		}
	}
	if f.names != nil {
		one, there := f.names[name]
		return there, there && one.Type()&fs.ModeSymlink != 0
	}
	info, err := os.Lstat(filepath.Join(f.resolved, name))
	return err == nil, err == nil && info.Mode()&fs.ModeSymlink != 0
}

// resolve returns the path without links if it exists. Paths that do not exist are compared
// component by component, so that doubled and trailing slashes do not count, while ".." does.
func (r resolver) resolve(path string) string {
	absolute := path
	if path == "" {
		return "" // is nowhere, not the working directory
	}
	if here, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
		absolute = here + "/" + path // not Join: it would take ".." away before links are followed
	}
	if resolved, ok := r.follow(absolute); ok {
		return resolved
	}
	parts := strings.Split(path, "/")
	kept := parts[:1]
	for _, part := range parts[1:] {
		if part != "" && part != "." {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "/")
}

func (r resolver) follow(absolute string) (resolved string, ok bool) {
	slash := strings.LastIndexByte(absolute, '/')
	parent, name := absolute[:slash+1], absolute[slash+1:]
	if name != "" && name != "." && name != ".." {
		in, known := r.folders[parent]
		if !known {
			in = &folder{}
			if above := strings.TrimRight(parent, "/"); above == "" {
				in.resolved = "/"
			} else if resolved, ok := r.follow(above); ok {
				in.resolved = resolved
			}
			r.folders[parent] = in
		}
		if in.resolved == "" {
			return "", false
		}
		if there, link := in.entry(name); !link {
			return filepath.Join(in.resolved, name), there
		}
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	return resolved, err == nil
}

// ActorChainForSession returns the actors from the first one down to the entry with the id, each
// the parent of the next by its native keys. Ended entries count. If several entries have a key,
// the oldest is the parent. A parent that is missing, or in the chain already, ends the chain. An
// unknown id has an empty chain.
func (r *Registry) ActorChainForSession(ctx context.Context, id string) ([]ActorChainNode, error) {
	return stores.Get(ctx, r.look, opChain, stores.Bind(r.ActorChainForSessionTx, id))
}

// ActorChainForSessionTx is ActorChainForSession inside a transaction.
func (r *Registry) ActorChainForSessionTx(rx *db.Rx, id string) (chain []ActorChainNode, err error) {
	err = r.readTx(rx, opChain, id, func(scope int64) error {
		fresh := staleBefore(rx.Now())
		s, err := findEntry(rx, sqlIsFresh, scope, id, fresh)
		seen := map[string]bool{}
		for err == nil && s != nil && !seen[s.SessionID] {
			seen[s.SessionID] = true
			chain = append(chain, ActorChainNode{
				SessionID: s.SessionID, NativeActorKey: s.NativeActorKey,
				NativeParentActorKey: s.NativeParentActorKey, Thread: s.Thread, Status: s.Status,
				Provider: s.Provider, Model: s.Model, Harness: s.Harness,
			})
			if s.NativeParentActorKey == nil {
				break
			}
			s, err = findEntry(rx, sqlParentOf, scope, *s.NativeParentActorKey, fresh)
		}
		return err
	})
	slices.Reverse(chain)
	return chain, err
}
