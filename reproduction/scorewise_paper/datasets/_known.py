"""The data sets of the paper: their publishers' addresses and checksums, and how they are read.

Checksums are the publishers' own where they publish one (CIFAR, MedMNIST, Places365, ImageNet),
else those that torchvision, TensorFlow Datasets, scikit-learn, Papers with Code or pytorch-ood
record for the official files. Checksums of unpacked MNIST, Fashion-MNIST and CIFAR-10 files were
computed from the official files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from scorewise_paper.datasets import _parsers
from scorewise_paper.datasets._parsers import Parser
from scorewise_paper.errors import InvalidInput

_CLASS_NAMES: dict[str, list[str]] = json.loads(
    resources.files(__package__).joinpath("class_names.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Source:
    """A file that a publisher offers.

    Attributes
    ----------
    path : str
        Where it is stored, under the data folder.
    url : str or None
        None where the publisher requires a registration.
    checksum : str
        Such as ``"sha256:…"`` or ``"md5:…"``.
    size : int or None
        In bytes, where it is published.
    mirrors : tuple of str
        Other addresses of the same file.
    unpacked : mapping of str to str
        For a tar archive: which of its folders and files are stored where, under the data folder.
    of_tars : bool
        The archive holds tar archives, each of which becomes a folder.
    """

    path: str
    url: str | None
    checksum: str
    size: int | None = None
    mirrors: tuple[str, ...] = ()
    unpacked: Mapping[str, str] = field(default_factory=dict)
    of_tars: bool = False

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return self.path.rpartition("/")[2]

    def provides(self, path: str) -> bool:
        """Whether ``path`` is this file, packed or not, or is unpacked from it."""
        return path in (self.path, self.path.removesuffix(".gz")) or any(
            path == target or path.startswith(f"{target}/") for target in self.unpacked.values()
        )


@dataclass(frozen=True)
class DataSet:
    """The description of a data set; made by :func:`scorewise_paper.datasets.describe`.

    Attributes
    ----------
    name, title : str
        For programs, and for people.
    licence, home : str
        The publisher's words, and page.
    folder : str
        Where it is stored, under the data folder.
    n_classes : int
        0 for a set that is only ever out of distribution.
    class_names : tuple of str or None
        None where the files contain them, or nobody names them.
    files : tuple of Source
        What is downloaded.
    splits : mapping of str to tuple of str
        Which files and folders each split is read from.
    checksums : mapping of str to str
        Of files as they are stored, where they are known.
    is_pooled : bool
        The publisher has no split, so all rows are pooled and split 70/30 by a seed.
    by_hand : str
        How to get it, where that requires a registration.
    """

    name: str
    title: str
    licence: str
    home: str
    folder: str
    n_classes: int
    splits: Mapping[str, tuple[str, ...]]
    parse: Parser = field(repr=False)
    class_names: tuple[str, ...] | None = field(default=None, repr=False)
    files: tuple[Source, ...] = field(default=(), repr=False)
    checksums: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_pooled: bool = False
    by_hand: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """All files and folders that are read, for any split."""
        return tuple(dict.fromkeys(path for paths in self.splits.values() for path in paths))

    def checksum_of(self, path: str) -> str | None:
        """The official checksum of a file as it is stored."""
        plain = {source.path: source.checksum for source in self.files if not source.unpacked}
        return self.checksums.get(path) or plain.get(path)

    def source_of(self, path: str) -> Source | None:
        """The source that provides a file or folder."""
        return next((source for source in self.files if source.provides(path)), None)

    def missing_by_hand(self, root: Path) -> list[Source]:
        """Files that have no address and are not in the data folder."""
        return [x for x in self.files if x.url is None and not (root / x.path).exists()]

    def steps_by_hand(self, root: Path, sources: Sequence[Source]) -> str:
        """How to get files that have no address."""
        files = [source.name + self._purpose(source) for source in sources]
        put = f", put {' and '.join(files)}" if files else ""
        return f"{self.by_hand}{put} in {root / self.folder}"

    def _purpose(self, source: Source) -> str:
        """The splits that need it, in brackets, unless all do."""
        splits = [name for name, parts in self.splits.items() if any(map(source.provides, parts))]
        return "" if len(splits) == len(self.splits) else f" (for {', '.join(splits)})"


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_PLACES = "http://data.csail.mit.edu/places/places365"
_ZENODO = "https://zenodo.org/records/10519652/files"
_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
_FASHION_MIRRORS = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",)

_IDX_NAMES = {
    split: (f"{start}-images-idx3-ubyte", f"{start}-labels-idx1-ubyte")
    for split, start in {"train": "train", "test": "t10k"}.items()
}


def _idx_set(
    name: str,
    title: str,
    licence: str,
    home: str,
    mirrors: tuple[str, ...],
    files: dict[str, tuple[int, str, str]],
) -> DataSet:
    """A set in MNIST's format; ``files``: size and SHA-256 packed, then SHA-256 unpacked."""
    sources = tuple(
        Source(
            f"{name}/{file}.gz",
            f"{mirrors[0]}/{file}.gz",
            f"sha256:{packed}",
            size,
            tuple(f"{mirror}/{file}.gz" for mirror in mirrors[1:]),
        )
        for file, (size, packed, _) in files.items()
    )
    return DataSet(
        name=name,
        title=title,
        licence=licence,
        home=home,
        folder=name,
        n_classes=10,
        splits={
            split: tuple(f"{name}/{file}" for file in pair) for split, pair in _IDX_NAMES.items()
        },
        parse=_parsers.idx,
        files=sources,
        checksums={f"{name}/{file}": f"sha256:{plain}" for file, (_, _, plain) in files.items()},
    )


def _med_set(name: str, title: str, md5: str, size: int | None = None) -> DataSet:
    """A set of MedMNIST v2."""
    path = f"{name}/{name}.npz"
    return DataSet(
        name=name,
        title=title,
        licence="CC BY 4.0",
        home="https://medmnist.com",
        folder=name,
        n_classes=len(_CLASS_NAMES[name]),
        splits=dict.fromkeys(("train", "val", "test"), (path,)),
        parse=_parsers.npz(lambda split: (f"{split}_images", f"{split}_labels"), 28, True),
        files=(Source(path, f"{_ZENODO}/{name}.npz?download=1", f"md5:{md5}", size),),
    )


_COVTYPE = DataSet(
    name="covtype",
    title="CoverType",
    licence="CC BY 4.0",
    home="https://archive.ics.uci.edu/dataset/31/covertype",
    folder="covtype",
    n_classes=7,
    is_pooled=True,
    splits=dict.fromkeys(("train", "test"), ("covtype/covtype.data",)),
    parse=_parsers.table(columns=55, first_label=1),
    files=(
        Source(
            "covtype/covtype.data.gz",
            f"{_UCI}/covtype/covtype.data.gz",
            "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
            11_240_707,
            ("https://ndownloader.figshare.com/files/5976039",),
        ),
    ),
)

_POKER_FILES = ("poker-hand-training-true.data", "poker-hand-testing.data")
_POKER = DataSet(
    name="poker-hand",
    title="Poker Hand",
    licence="CC BY 4.0",
    home="https://archive.ics.uci.edu/dataset/158/poker+hand",
    folder="poker-hand",
    n_classes=10,
    is_pooled=True,
    splits=dict.fromkeys(("train", "test"), tuple(f"poker-hand/{file}" for file in _POKER_FILES)),
    parse=_parsers.table(columns=11, first_label=0),
    files=(
        Source(
            f"poker-hand/{_POKER_FILES[0]}",
            f"{_UCI}/poker/{_POKER_FILES[0]}",
            "sha256:37becdf87d5f8cbf2b91d6471e965a25b86cb4a6d878c0f94a4025969fca464f",
            613_694,
        ),
        Source(
            f"poker-hand/{_POKER_FILES[1]}",
            f"{_UCI}/poker/{_POKER_FILES[1]}",
            "sha256:3cd75958e19dd321ed5ca3f7f154c0f6aad544aab9f37731ac545b5f66b232c7",
        ),
    ),
)

_CIFAR_10_FOLDER = "cifar-10-batches-bin"
_CIFAR_10 = DataSet(
    name="cifar-10",
    title="CIFAR-10",
    licence="unknown",
    home=_CIFAR_PAGE,
    folder=_CIFAR_10_FOLDER,
    n_classes=10,
    splits={
        "train": tuple(f"{_CIFAR_10_FOLDER}/data_batch_{i}.bin" for i in range(1, 6)),
        "test": (f"{_CIFAR_10_FOLDER}/test_batch.bin",),
    },
    parse=_parsers.cifar(label_bytes=1),
    files=(
        Source(
            "cifar-10-binary.tar.gz",
            f"{_CIFAR}/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
            unpacked={_CIFAR_10_FOLDER: _CIFAR_10_FOLDER},
        ),
    ),
    checksums={
        f"{_CIFAR_10_FOLDER}/{file}.bin": f"sha256:{digest}"
        for file, digest in {
            "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        }.items()
    },
)

_CIFAR_100 = DataSet(
    name="cifar-100",
    title="CIFAR-100",
    licence="unknown",
    home=_CIFAR_PAGE,
    folder="cifar-100-binary",
    n_classes=100,
    splits={"train": ("cifar-100-binary/train.bin",), "test": ("cifar-100-binary/test.bin",)},
    parse=_parsers.cifar(label_bytes=2),
    files=(
        Source(
            "cifar-100-binary.tar.gz",
            f"{_CIFAR}/cifar-100-binary.tar.gz",
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            168_513_733,
            unpacked={"cifar-100-binary": "cifar-100-binary"},
        ),
    ),
)

_SVHN_SET = DataSet(
    name="svhn",
    title="SVHN",
    licence="non-commercial use only",
    home="http://ufldl.stanford.edu/housenumbers/",
    folder="svhn",
    n_classes=10,
    splits={"train": ("svhn/train_32x32.mat",), "test": ("svhn/test_32x32.mat",)},
    parse=_parsers.svhn,
    files=(
        Source(
            "svhn/train_32x32.mat",
            f"{_SVHN}/train_32x32.mat",
            "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            182_040_794,
        ),
        Source(
            "svhn/test_32x32.mat",
            f"{_SVHN}/test_32x32.mat",
            "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            64_275_384,
        ),
    ),
)

_PLACES_LISTS = ("places365_val.txt", "categories_places365.txt")
_PLACES365 = DataSet(
    name="places365",
    title="Places365",
    licence="CC BY",
    home="http://places2.csail.mit.edu",
    folder="places365",
    n_classes=365,
    splits=dict.fromkeys(
        ("val", "test"), ("places365/val_256", *(f"places365/{file}" for file in _PLACES_LISTS))
    ),
    parse=_parsers.places365,
    files=(
        Source(
            "places365/val_256.tar",
            f"{_PLACES}/val_256.tar",
            "md5:e27b17d8d44f4af9a78502beb927f808",
            525_158_400,
            unpacked={"val_256": "places365/val_256"},
        ),
        Source(
            "places365/filelist_places365-standard.tar",
            f"{_PLACES}/filelist_places365-standard.tar",
            "md5:35a0585fee1fa656440f3ab298f8479c",
            unpacked={file: f"places365/{file}" for file in _PLACES_LISTS},
        ),
    ),
    checksums={
        "places365/places365_val.txt": "md5:e9f2fd57bfd9d07630173f4e8708e4b1",
        "places365/categories_places365.txt": "md5:06c963b85866bd0649f97cb43dd16673",
    },
)

_MNIST = _idx_set(
    "mnist",
    "MNIST",
    "CC BY-SA 3.0 (the paper: CC BY)",
    "http://yann.lecun.com/exdb/mnist/",
    _MNIST_MIRRORS,
    {
        "train-images-idx3-ubyte": (
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        "train-labels-idx1-ubyte": (
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        "t10k-images-idx3-ubyte": (
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        "t10k-labels-idx1-ubyte": (
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    },
)

_FASHION_MNIST = _idx_set(
    "fashion-mnist",
    "Fashion-MNIST",
    "MIT License",
    "https://github.com/zalandoresearch/fashion-mnist",
    _FASHION_MIRRORS,
    {
        "train-images-idx3-ubyte": (
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        "train-labels-idx1-ubyte": (
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        "t10k-images-idx3-ubyte": (
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        "t10k-labels-idx1-ubyte": (
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    },
)

_IMAGENET = DataSet(
    name="imagenet",
    title="ImageNet",
    licence="non-commercial research and education",
    home="https://image-net.org/download.php",
    folder="imagenet",
    n_classes=1000,
    splits={
        "train": ("imagenet/train", "imagenet/devkit"),
        **dict.fromkeys(("val", "test"), ("imagenet/val", "imagenet/devkit")),
    },
    parse=_parsers.imagenet,
    files=(
        Source(
            "imagenet/ILSVRC2012_img_val.tar",
            None,
            "md5:29b22e2961454d5413ddabcf34fc5622",
            6_744_924_160,
            unpacked={"": "imagenet/val"},
        ),
        Source(
            "imagenet/ILSVRC2012_devkit_t12.tar.gz",
            None,
            "md5:fa75699e90414af021442c21a62c3abf",
            unpacked={"ILSVRC2012_devkit_t12/data": "imagenet/devkit"},
        ),
        Source(
            "imagenet/ILSVRC2012_img_train.tar",
            None,
            "md5:1d675b47d978889d74fa0da5fadfb00e",
            147_897_477_120,
            unpacked={"": "imagenet/train"},
            of_tars=True,
        ),
    ),
    by_hand="register at https://image-net.org/download.php",
)

_IMAGENET_O = DataSet(
    name="imagenet-o",
    title="ImageNet-O",
    licence="MIT License",
    home="https://github.com/hendrycks/natural-adv-examples",
    folder="imagenet-o",
    n_classes=0,
    splits={"test": ("imagenet-o",)},
    parse=_parsers.unlabelled,
    files=(
        Source(
            "imagenet-o.tar",
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-o.tar",
            "md5:86bd7a50c1c4074fb18fc5f219d6d50b",
            unpacked={"imagenet-o": "imagenet-o"},
        ),
    ),
)

_FOOD101 = DataSet(
    name="food101",
    title="Food-101",
    licence="unknown",
    home="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    folder="food101",
    n_classes=101,
    splits=dict.fromkeys(("train", "test"), ("food101/images", "food101/meta")),
    parse=_parsers.food101,
    files=(
        Source(
            "food101/food-101.tar.gz",
            "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
            "sha256:d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
            4_996_278_331,
            unpacked={"food-101/images": "food101/images", "food-101/meta": "food101/meta"},
        ),
    ),
)

_TINY_IMAGENET = DataSet(
    name="tiny-imagenet-32",
    title="Tiny ImageNet at 32 × 32",
    licence="as ImageNet",
    home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    folder="tiny-imagenet-32",
    n_classes=200,
    splits=dict.fromkeys(("val", "test"), ("tiny-imagenet-32/val.npz",)),
    parse=_parsers.npz(lambda split: ("x", "y"), 32, False),
    by_hand="its publisher has no such file: put val.npz with x (n, 3, 32, 32) and y",
)

DATA_SETS: dict[str, DataSet] = {
    data_set.name: replace(data_set, class_names=tuple(_CLASS_NAMES.get(data_set.name, ())) or None)
    for data_set in (
        _COVTYPE,
        _POKER,
        _CIFAR_10,
        _CIFAR_100,
        _SVHN_SET,
        _PLACES365,
        _MNIST,
        _FASHION_MNIST,
        _med_set("tissuemnist", "TissueMNIST", "ebe78ee8b05294063de985d821c1c34b"),
        _med_set("bloodmnist", "BloodMNIST", "7053d0359d879ad8a5505303e11de1dc"),
        _med_set("organcmnist", "OrganCMNIST", "0afa5834fb105f7705a7d93372119a21"),
        _med_set("pathmnist", "PathMNIST", "a8b06965200029087d5bd730944a56c1", 205_615_438),
        _IMAGENET,
        _IMAGENET_O,
        _FOOD101,
        _TINY_IMAGENET,
    )
}


def names() -> tuple[str, ...]:
    """Return the names of all data sets.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.names()[:3]
    ('covtype', 'poker-hand', 'cifar-10')
    """
    return tuple(DATA_SETS)


def describe(name: str) -> DataSet:
    """Return the description of a data set: licence, addresses, checksums, splits.

    Parameters
    ----------
    name : str
        A name of :func:`names`.

    Returns
    -------
    DataSet

    Raises
    ------
    InvalidInput
        If there is no such data set.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> mnist = datasets.describe("mnist")
    >>> mnist.title, mnist.n_classes, list(mnist.splits)
    ('MNIST', 10, ['train', 'test'])
    """
    if name not in DATA_SETS:
        raise InvalidInput(f"there is no data set {name!r}; there are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]
