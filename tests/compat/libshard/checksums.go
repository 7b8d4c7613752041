package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/timebertt/kubernetes-controller-sharding/pkg/apis/sharding/v1alpha1"
	shardcontroller "github.com/timebertt/kubernetes-controller-sharding/pkg/shard/controller"
)

// checksums keeps, for every Secret, a ConfigMap with the SHA-256 of each of its values.  It knows
// nothing of drains: the library's reconciler around it acknowledges them.
type checksums struct {
	client.Client
	// labels of the ConfigMaps.
	labels map[string]string
}

// addController adds the controller, as a shard if there is a ring.
func addController(mgr manager.Manager, ring, shard string, workers int) error {
	changed, checksums := dataChanged(), &checksums{Client: mgr.GetClient()}
	var reconciler reconcile.Reconciler = checksums
	if ring != "" {
		checksums.labels = map[string]string{shardingv1alpha1.LabelShard(ring): shard}
		changed = shardcontroller.Predicate(ring, shard, changed)
		reconciler = shardcontroller.NewShardedReconciler(mgr).
			For(&corev1.Secret{}).InControllerRing(ring).WithShardName(shard).MustBuild(reconciler)
	}
	return builder.ControllerManagedBy(mgr).
		Named("checksums").
		For(&corev1.Secret{}, builder.WithPredicates(changed)).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
}

// dataChanged passes no update of labels alone: the library's own predicate has to see drains.
func dataChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Secret), e.ObjectNew.(*corev1.Secret)
		return !equality.Semantic.DeepEqual(before.Data, after.Data)
	}}
}

// Reconcile makes the ConfigMap say what the Secret holds.
func (c *checksums) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := c.Get(ctx, request.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // gone or moved: the same to this shard
	}
	if secret.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector takes the ConfigMap along
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace,
		Name:      secret.Name + "-checksums",
	}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, child, func() error {
		for key, value := range c.labels {
			metav1.SetMetaDataLabel(&child.ObjectMeta, key, value)
		}
		child.Data = map[string]string{}
		for key, value := range secret.Data {
			sum := sha256.Sum256(value)
			child.Data[key] = hex.EncodeToString(sum[:])
		}
		return controllerutil.SetControllerReference(secret, child, c.Scheme())
	})
	return reconcile.Result{}, err
}
