// Command libshard is a shard on the library of kubernetes-controller-sharding, put together as that
// project's guide does it for controllers on controller-runtime; nothing in it is the sharder's.
//
// It does the work of examples/checksum-controller, under the same names and settings, so that it can
// share a ring with shards in Python and with those of tests/compat/goshard.  For the row `load` of
// the benchmark it does other -work: websites, with or without a ring, or deployments.  Without a
// ring it is an operator as others are.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	shardingv1alpha1 "github.com/timebertt/kubernetes-controller-sharding/pkg/apis/sharding/v1alpha1"
	shardlease "github.com/timebertt/kubernetes-controller-sharding/pkg/shard/lease"
)

// settings say who this replica is; flags win over the environment.
type settings struct {
	work, ring                string
	name, namespace           string
	duration, deadline, retry time.Duration
	workers                   int
	elects                    bool
}

func main() {
	logf.SetLogger(zap.New())
	klog.SetLogger(logf.Log)
	if err := run(); err != nil {
		logf.Log.Error(err, "shard failed")
		os.Exit(1)
	}
}

// run works until a signal and then releases the Lease; a lost Lease is an error.
func run() error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return err
	}
	restConfig.QPS, restConfig.Burst = 100, 150
	options := manager.Options{
		Metrics: metricsserver.Options{BindAddress: cmp.Or(os.Getenv("SHARD_METRICS"), "0")},
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	}
	if s.ring == "" {
		options.LeaderElection, options.LeaderElectionID = s.elects, "libshard"
		options.LeaderElectionNamespace = s.namespace
	} else {
		if err := joinRing(&options, restConfig, s); err != nil {
			return err
		}
	}
	mgr, err := manager.New(restConfig, options)
	if err != nil {
		return err
	}
	addWebsites(mgr.GetScheme())
	switch s.work {
	case "checksums":
		err = addController(mgr, s.ring, s.name, s.workers)
	case "websites":
		err = addWebsiteController(mgr, s.ring, s.name, s.workers)
	case "deployments":
		err = addDeploymentController(mgr, s.workers)
	default:
		err = fmt.Errorf("there is no work %q", s.work)
	}
	if err != nil {
		return err
	}
	return mgr.Start(signals.SetupSignalHandler())
}

// joinRing makes the manager a shard: it works while it holds its Lease, on its own objects alone.
func joinRing(options *manager.Options, restConfig *rest.Config, s settings) error {
	lease, err := shardlease.NewResourceLock(restConfig, shardlease.Options{
		ControllerRingName: s.ring,
		LeaseNamespace:     s.namespace,
		ShardName:          s.name,
	})
	if err != nil {
		return err
	}
	options.LeaderElection = true
	options.LeaderElectionResourceLockInterface = lease
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &s.duration, &s.deadline, &s.retry
	options.Cache.DefaultLabelSelector = labels.SelectorFromSet(labels.Set{
		shardingv1alpha1.LabelShard(s.ring): lease.Identity(),
	})
	return nil
}

func readSettings() (settings, error) {
	var s settings
	flag.StringVar(&s.work, "work", "checksums", "checksums, websites or deployments")
	flag.StringVar(&s.ring, "ring", "checksum", "the ControllerRing; empty: work alone on all objects")
	flag.StringVar(&s.name, "name", variable("SHARD_NAME", "POD_NAME"), "of the shard and its Lease")
	flag.StringVar(&s.namespace, "namespace", variable("SHARD_NAMESPACE", "POD_NAMESPACE"), "of the Lease")
	flag.BoolVar(&s.elects, "elect", false, "elect a leader, if there is no ring")
	flag.Parse()
	if s.name == "" || s.namespace == "" {
		return s, errors.New("set SHARD_NAME and SHARD_NAMESPACE, or POD_NAME and POD_NAMESPACE")
	}
	var problems [4]error
	s.duration, problems[0] = seconds("SHARD_LEASE_DURATION", "15")
	s.deadline, problems[1] = seconds("SHARD_RENEW_DEADLINE", "10")
	s.retry, problems[2] = seconds("SHARD_RETRY_PERIOD", "2")
	s.workers, problems[3] = strconv.Atoi(cmp.Or(os.Getenv("SHARD_WORKERS"), "10"))
	return s, errors.Join(problems[:]...)
}

// variable returns the first of the variables that is not empty.
func variable(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

func seconds(name, otherwise string) (time.Duration, error) {
	number, err := strconv.ParseFloat(cmp.Or(os.Getenv(name), otherwise), 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return time.Duration(number * float64(time.Second)), nil
}
