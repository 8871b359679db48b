package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// clusterTool starts three servers under Patroni, from the top of the repository.
const clusterTool = "tools/cluster"

// clusters measures the stores on three servers, one of them a synchronous standby, against the
// same work by hand there, and reports the results of one server and of a file.
func clusters(ctx context.Context, b *bench) (list []result, err error) {
	if b.server == "" {
		return []result{{row: "the stores on a cluster of three", baseline: "no -server", met: metUnknown}}, nil
	}
	address := b.cluster
	if address == "" {
		var stop func() error
		if address, stop, err = startCluster(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	dir, err := b.path("cluster")
	if err != nil {
		return nil, err
	}
	if _, err := treeOfRuns(dir); err != nil {
		return nil, err
	}
	file := place{"a file", filepath.Join(dir, "selvedge.db")}
	far, behind, err := listenFar(address, roundTrip)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	near, single := place{"PostgreSQL, a cluster of three", address}, place{"one server", b.server}
	for _, p := range []place{near, single, file} {
		if err := prepareCrews(ctx, p.address); err != nil {
			return nil, err
		}
	}
	away := place{fmt.Sprintf("PostgreSQL, a cluster of three %v away", roundTrip), behind}
	for _, one := range []struct {
		at     place
		beside []place
	}{{near, []place{single, file}}, {away, nil}} {
		rows, err := b.crewsAt(ctx, one.at, one.beside)
		if list = append(list, rows...); err != nil {
			return list, err
		}
		if b.works("follow") {
			rows, err := b.followAt(ctx, one.at, single)
			if list = append(list, rows...); err != nil {
				return list, err
			}
		}
		if b.works("import") {
			row, err := b.importAt(ctx, one.at, dir)
			if err != nil {
				return list, err
			}
			list = append(list, row)
		}
	}
	return list, nil
}

// startCluster starts a cluster in a folder of its own, which the servers' user may enter, and
// returns its address and the function that stops it.
func startCluster(ctx context.Context) (address string, stop func() error, err error) {
	parent, err := os.MkdirTemp("", "selvedge-bench-")
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(parent, "cluster")
	tool := func(ctx context.Context, word string) (string, error) {
		c := exec.CommandContext(ctx, clusterTool, word, dir)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			err = fmt.Errorf("%s %s: %w", clusterTool, word, err)
		}
		return strings.TrimSpace(string(out)), err
	}
	stop = func() error {
		_, err := tool(context.WithoutCancel(ctx), "stop")
		return errors.Join(err, os.RemoveAll(parent))
	}
	//nolint:gosec // the servers run as another user
	err = errors.Join(os.Chmod(parent, 0o755), realDisk(parent))
	if err == nil {
		fmt.Fprintln(os.Stderr, "  starting three servers")
		address, err = tool(ctx, "start")
	}
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return address, stop, nil
}
